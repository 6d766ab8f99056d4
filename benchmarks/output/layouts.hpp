// Formats a benchmark's rows like the output of other tools, for users and scripts that know these.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/output/report.hpp"

namespace weft::bench {

/// The layout of the OSU micro-benchmarks: size and latency of weft, followed by columns of the
/// limit and the peers. One block for each kind of row and number of ranks.
std::string osu_layout(const std::string& benchmark, const std::vector<Row>& rows);

/// The layout of nccl-tests: size, count, type, redop, time, algbw, busbw and #wrong, for weft
/// alone. `checked`: the results were verified, so #wrong is 0. Throws std::runtime_error if the
/// benchmark is no collective.
std::string nccl_layout(const std::string& benchmark, const std::vector<Row>& rows, bool checked);

/// Comma-separated values with a line of headings: a line for each row, microseconds, ratios and
/// their spreads; beside another build also `worse`, 1 or 0; over TCP also `congestion_control`,
/// the same in each line.
std::string csv(const std::vector<Row>& rows, const Machine& machine);
/// Throws std::runtime_error if the file can't be written.
void write_csv(const std::string& file, const std::vector<Row>& rows, const Machine& machine);

}  // namespace weft::bench
