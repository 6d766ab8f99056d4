// Divides a tensor among ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::detail {

/// The share of one of `ranks` in `count` elements: whole cache lines, divided as evenly as
/// possible.
struct Slice {
  std::int64_t first;
  std::int64_t count;
};

inline Slice slice_of(std::int64_t count, std::size_t element, int rank, int ranks) noexcept {
  constexpr std::size_t kLine = 64;
  const auto per_line = static_cast<std::int64_t>(kLine / element);
  const std::int64_t lines = (count + per_line - 1) / per_line;
  const std::int64_t first = lines / ranks * rank + std::min<std::int64_t>(rank, lines % ranks);
  const std::int64_t own = lines / ranks + (rank < lines % ranks ? 1 : 0);
  const std::int64_t begin = std::min(count, first * per_line);
  return {begin, std::min(count, (first + own) * per_line) - begin};
}

}  // namespace weft::detail
