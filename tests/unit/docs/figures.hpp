// The lines of docs/scaling.md that follow from the sizes of types.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/docs/sizes.hpp"

namespace weft::docs {

/// Lines that follow each other in the document. The first is found by its first two cells.
using Block = std::vector<std::string>;

std::vector<Block> figures(const Sizes& sizes);

/// The document with each block's lines replaced by those given. Throws std::runtime_error for a
/// block that it does not hold exactly once.
std::string with_figures(const std::string& document, const std::vector<Block>& blocks);

}  // namespace weft::docs
