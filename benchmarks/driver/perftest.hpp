// Runs linux-rdma's perftest on the same transfers: ib_write_bw, ib_read_bw, ib_write_lat.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// The reason why perftest can't run here; nullopt if it can.
std::optional<std::string> perftest_missing();

/// Runs both ends on this host, on the port that weft would choose. Throws std::runtime_error with
/// perftest's output if perftest fails.
std::vector<RunRow> run_perftest(const RunOptions& options);

}  // namespace weft::bench
