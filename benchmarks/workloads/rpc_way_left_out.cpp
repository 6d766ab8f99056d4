#include <string>

#include "benchmarks/harness/rpc_built.hpp"
#include "benchmarks/workloads/rpc_way.hpp"
#include "weft/error.hpp"

namespace weft::bench {

std::unique_ptr<dataflow::Way> make_rpc_way(World&) {
  throw Error(ErrorDetail{.code = Code::system,
                          .operation = "rpc",
                          .message = std::string(kRpcRefusal),
                          .hint = "./dev bench installs it and builds weft-bench anew"});
}

}  // namespace weft::bench
