// A benchmark's rows in the forms that other tools print, for eyes and scripts used to them.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/output/report.hpp"

namespace weft::bench {

/// As the OSU micro-benchmarks: size and latency, weft's and, in columns behind it, the limit's and
/// the peers'. One block for each kind of row and number of ranks.
std::string osu_layout(const std::string& benchmark, const std::vector<Row>& rows);

/// As nccl-tests: size, count, type, redop, time, algbw, busbw and #wrong, weft's alone. `checked`:
/// the results were, and so none is wrong. Throws std::runtime_error for what is no collective.
std::string nccl_layout(const std::string& benchmark, const std::vector<Row>& rows, bool checked);

/// Comma-separated values with a line of headings: a line for each row, microseconds, ratios and
/// their spreads; beside another build also `worse`, 1 or 0.
std::string csv(const std::vector<Row>& rows);
/// Throws std::runtime_error when the file can't be written.
void write_csv(const std::string& file, const std::vector<Row>& rows);

}  // namespace weft::bench
