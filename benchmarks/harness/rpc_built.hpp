// Whether the way `rpc` was built, which needs protobuf.
#pragma once

#include <string_view>

namespace weft::bench {

/// Why there is no way `rpc`; empty if there is.
inline constexpr std::string_view kRpcRefusal =
    WEFT_BENCH_HAS_RPC ? ""
                       : "weft-bench was built without protobuf (libprotobuf-dev, "
                         "protobuf-compiler)";

}  // namespace weft::bench
