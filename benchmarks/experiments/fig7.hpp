// Figure 7 beside the paper's.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/output/report.hpp"

namespace weft::bench {

/// For put and view: how many times as long copying, RPC and gRPC take, over all sizes, and the
/// paper's figures. `rows`: those of the benchmark fig7.
std::string fig7_text(const std::vector<Row>& rows);

}  // namespace weft::bench
