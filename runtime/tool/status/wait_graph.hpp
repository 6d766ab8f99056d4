// Who holds up whom: the roots of what ranks wait for.
#pragma once

#include <span>
#include <vector>

namespace weft::tool {

/// `from` waits for `to`.
struct WaitsFor {
  int from = -1;
  int to = -1;
};

/// A rank that waits for nobody, while others wait for it.
struct Laggard {
  int rank = -1;
  int waiters = 0;  ///< ranks that wait for it, by themselves or for one that does
  friend bool operator==(const Laggard&, const Laggard&) = default;
};

struct HeldUp {
  std::vector<Laggard> laggards;          ///< the one with the most waiters first
  std::vector<std::vector<int>> circles;  ///< each waits for the next, the last for the first
};

/// Not who is behind in counts, which in a loop of steps are those that wait, but what they wait
/// for in the end.
HeldUp find_roots(std::span<const WaitsFor> waits);

}  // namespace weft::tool
