#include "base/nearest_setting.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/config.hpp"

namespace weft {
namespace {

/// The Levenshtein distance, computed with one row of the matrix.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char c : from) {
    std::size_t diagonal = row[0]++;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto replaced = diagonal + (c == to[i] ? 0 : 1);
      diagonal = row[i + 1];
      row[i + 1] = std::min({replaced, row[i] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_setting(std::string_view name) {
  std::string_view nearest;
  auto least = std::numeric_limits<std::size_t>::max();
  for (const auto& spec : setting_table()) {
    const auto far = distance(name, spec.variable);
    if (far >= least) continue;
    least = far;
    nearest = spec.variable;
  }
  return nearest;
}

}  // namespace weft
