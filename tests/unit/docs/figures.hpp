// The lines of docs/scaling.md that follow from the sizes of types.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/docs/sizes.hpp"

namespace weft::docs {

/// Consecutive lines of the document. The first line is found by its first two cells.
using Block = std::vector<std::string>;

std::vector<Block> figures(const Sizes& sizes);

/// The document with each block's lines replaced by `blocks`. Throws std::runtime_error for a block
/// that the document does not hold exactly once.
std::string with_figures(const std::string& document, const std::vector<Block>& blocks);

}  // namespace weft::docs
