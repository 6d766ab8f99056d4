// One stream of bytes by iperf3, between the hosts that the runs are on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// Why it can't be run here; nullopt: it can.
std::optional<std::string> iperf3_missing();

/// Rows for the sizes above 8 bytes: the time that `size` bytes take at the stream's rate. Throws
/// std::runtime_error with the output of iperf3 if iperf3 fails.
std::vector<RunRow> run_iperf3(const RunOptions& options);

}  // namespace weft::bench
