#include "benchmarks/output/against.hpp"

#include <fmt/format.h>

namespace weft::bench {

bool is_worse(const Comparison& against) {
  return against.ratio > kMostRatio && against.ratio - 1 > against.spread;
}

std::string against_text(const std::string& path, const std::vector<Row>& rows) {
  std::string worse;
  for (const Row& row : rows) {
    const auto found = row.peers.find(std::string(kAgainst));
    if (found == row.peers.end() || !is_worse(found->second)) continue;
    worse += fmt::format("  {} {}, {} ranks: {:.3f}, spread {:.0f}%\n", size_text(row.size),
                         row.kind, row.ranks, found->second.ratio, 100 * found->second.spread);
  }
  const std::string rule =
      fmt::format("(a median ratio above {} that exceeds 1 by more than the spread)", kMostRatio);
  return worse.empty() ? fmt::format("against {}: no row is worse {}\n", path, rule)
                       : fmt::format("against {}: worse {}:\n{}", path, rule, worse);
}

}  // namespace weft::bench
