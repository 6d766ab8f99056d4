// Until discovery arrives this refuses.
#include "topology/discover.hpp"
#include "weft/error.hpp"

namespace weft::topology {
CudaAnswer ask_cuda_driver() { return {}; }
Model discover(const DiscoverOptions&) {
  throw Error(ErrorDetail{.operation = "topology", .message = "is being built"});
}
}  // namespace weft::topology
