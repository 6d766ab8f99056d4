#include "benchmarks/output/against.hpp"

#include <fmt/format.h>

namespace weft::bench {

bool is_worse(const Comparison& against) {
  return against.ratio > kMostRatio && against.ratio * (1 - against.spread) > 1;
}

std::string against_text(const std::string& path, const std::vector<Row>& rows) {
  std::string worse;
  for (const Row& row : rows) {
    const auto found = row.peers.find(std::string(kAgainst));
    if (found == row.peers.end() || !is_worse(found->second)) continue;
    worse += fmt::format("  {} {}, {} ranks: {:.3f}, spread {:.0f}%; the limit's: {:.3f}\n",
                         size_text(row.size), row.kind, row.ranks, found->second.ratio,
                         100 * found->second.spread, row.limit_against);
  }
  const std::string rule =
      fmt::format("(a median ratio above {}, and above 1 with its spread taken off)", kMostRatio);
  return worse.empty() ? fmt::format("against {}: no row is worse {}\n", path, rule)
                       : fmt::format("against {}: worse {}:\n{}", path, rule, worse);
}

}  // namespace weft::bench
