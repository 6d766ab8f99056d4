// The same transfers by perftest, linux-rdma's own measure: ib_write_bw, ib_read_bw, ib_write_lat.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// Why it can't be run here; nullopt: it can.
std::optional<std::string> perftest_missing();

/// Both ends on this host, on the port that weft would choose. Throws std::runtime_error with what
/// it said when it fails.
std::vector<RunRow> run_perftest(const RunOptions& options);

}  // namespace weft::bench
