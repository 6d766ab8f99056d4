// The output of weft-bench fig9.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/convergence/curves.hpp"

namespace weft::bench {

/// Times to the target, for people, beside the paper's figures.
std::string fig9_table(const std::vector<Experiment>& experiments);

/// The three below throw std::runtime_error if a file cannot be written.
void write_fig9_json(const std::string& file, const std::vector<Experiment>& experiments);
/// A row for each step of each way.
void write_fig9_csv(const std::string& file, const std::vector<Experiment>& experiments);
/// Draws the rows of a CSV file. A missing Python or matplotlib is a line on stderr.
void draw_fig9(const std::string& csv_file, const std::string& svg_file);

}  // namespace weft::bench
