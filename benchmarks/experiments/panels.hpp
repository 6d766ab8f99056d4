// Pictures of experiments.
#pragma once

#include <string>

#include "benchmarks/experiments/sheet.hpp"

namespace weft::bench {

/// Draws the rows of a sheet's CSV. Says on stderr why there is no picture, if python3 or
/// matplotlib is missing. Throws std::runtime_error if drawing fails.
void draw_panels(const std::string& csv_file, const std::string& svg_file, const std::string& title,
                 const Drawing& drawing);

}  // namespace weft::bench
