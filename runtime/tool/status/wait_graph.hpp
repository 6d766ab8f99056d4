// The wait graph of a job: which ranks hold up the others.
#pragma once

#include <span>
#include <vector>

namespace weft::tool {

/// `from` waits for `to`.
struct WaitsFor {
  int from = -1;
  int to = -1;
  bool is_one_of_several = false;  ///< any of its waits of this kind may end the wait
};

/// A rank that waits for no other rank while others wait for it.
struct Laggard {
  int rank = -1;
  int waiters = 0;  ///< ranks that wait for this one, directly or through other ranks
  friend bool operator==(const Laggard&, const Laggard&) = default;
};

struct HeldUp {
  std::vector<Laggard> laggards;  ///< the one with the most waiters first
  std::vector<std::vector<int>>
      circles;  ///< in each, a rank waits for the next, the last for the first
};

/// Finds the ranks at the end of all chains of waits. Counts of completed steps would not show
/// them: in a loop of steps, the ranks that are behind are those that wait. A circle through a rank
/// that waits for one of several is none if it leads to a rank that does not wait.
HeldUp find_roots(std::span<const WaitsFor> waits);

}  // namespace weft::tool
