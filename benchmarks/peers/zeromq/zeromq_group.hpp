// Steps of four workers and two servers over ZeroMQ.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// Runs one of the six ranks. `places` is the prefix of the servers' socket names. Returns a
/// worker's rows; a server's are empty.
std::vector<RunRow> group_over_zeromq(int rank, const std::string& places,
                                      const RunOptions& options);

}  // namespace weft::bench
