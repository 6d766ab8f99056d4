// A benchmark's rows as a picture.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/output/report.hpp"

namespace weft::bench {

/// Time by size, both by powers of ten, as SVG: for each kind of row a line for weft and one for
/// the limit, and a line for each peer (of each kind where its times differ). Needs no script, no
/// font of its own, and reads on white and on black.
std::string svg(const std::string& benchmark, const std::vector<Row>& rows);

/// Throws std::runtime_error when the file can't be written.
void write_svg(const std::string& file, const std::string& benchmark, const std::vector<Row>& rows);

}  // namespace weft::bench
