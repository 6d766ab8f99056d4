#include "pslib/table/layout.hpp"

#include <algorithm>

namespace weft::pslib {

std::int64_t region_elements(std::span<const ShardPiece> pieces, int server) noexcept {
  std::int64_t elements = 0;
  for (const ShardPiece& piece : pieces)
    if (piece.server == server) elements += padded(piece.count);
  return std::max(elements, kLineElements);
}

Layout::Layout(std::span<const TensorSpec> specs) {
  offsets_.reserve(specs.size());
  for (const TensorSpec& spec : specs) {
    offsets_.push_back(elements_);
    elements_ += padded(spec.shape.elements());
  }
}

}  // namespace weft::pslib
