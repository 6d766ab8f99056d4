// Complementary distributions of sizes.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::bench {

/// The shares of all sizes that are above `size`: of their number, and of their sum.
struct Share {
  std::size_t size = 0;
  double of_count = 0;
  double of_bytes = 0;
};

/// Those above 0 and above each size, ascending. Requires at least one size; none may be 0.
std::vector<Share> shares_above(std::vector<std::size_t> sizes);

/// Those above `size`.
Share share_above(const std::vector<std::size_t>& sizes, std::size_t size);

}  // namespace weft::bench
