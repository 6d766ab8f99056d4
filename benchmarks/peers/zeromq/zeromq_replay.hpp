// Training steps of the paper's models over ZeroMQ.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// Runs one of two ranks that are workers and servers at once. `places` is the prefix of both
/// ranks' socket names. Returns this worker's rows.
std::vector<RunRow> replay_over_zeromq(int rank, const std::string& places,
                                       const RunOptions& options);

}  // namespace weft::bench
