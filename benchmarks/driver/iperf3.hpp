// Runs iperf3 with one stream between the hosts of the benchmark's runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// The reason why iperf3 can't run here; nullopt if it can.
std::optional<std::string> iperf3_missing();

/// Rows for the sizes above 8 bytes: the time that `size` bytes take at the stream's rate. Throws
/// std::runtime_error with the output of iperf3 if iperf3 fails.
std::vector<RunRow> run_iperf3(const RunOptions& options);

}  // namespace weft::bench
