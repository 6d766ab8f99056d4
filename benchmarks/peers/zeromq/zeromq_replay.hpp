// The paper's models, step by step, over ZeroMQ.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// One of two ranks that are workers and servers at once. `places` begins the names of both ranks'
/// sockets. Returns this worker's rows.
std::vector<RunRow> replay_over_zeromq(int rank, const std::string& places,
                                       const RunOptions& options);

}  // namespace weft::bench
