#include "runtime/tool/trace/clocks.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

namespace weft::tool {
namespace {

/// Bounds of the difference of two clocks: b's reading minus a's, in ns.
struct Bounds {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();

  bool both() const noexcept {
    return least != std::numeric_limits<std::int64_t>::min() &&
           most != std::numeric_limits<std::int64_t>::max();
  }
};

using Pairs = std::map<std::pair<std::string, std::string>, Bounds>;

Pairs bounds_of(std::span<const Crossing> crossings) {
  Pairs pairs;
  for (const Crossing& c : crossings) {
    if (c.from == c.to) continue;
    Bounds& there = pairs[{c.from, c.to}];
    there.most = std::min(there.most, c.came_ns - c.left_ns);
    Bounds& back = pairs[{c.to, c.from}];
    back.least = std::max(back.least, c.left_ns - c.came_ns);
  }
  return pairs;
}

}  // namespace

std::map<std::string, Alignment> align(std::span<const WallClock> clocks,
                                       std::span<const Crossing> crossings) {
  std::map<std::string, Alignment> aligned;
  if (clocks.empty()) return aligned;
  const Pairs pairs = bounds_of(crossings);
  aligned[clocks.front().boot] = {};
  // Breadth first, so that two kernels without common crossings are aligned through a third.
  std::deque<std::string> open{clocks.front().boot};
  while (!open.empty()) {
    const std::string known = open.front();
    open.pop_front();
    for (const auto& [pair, bounds] : pairs) {
      if (pair.first != known || aligned.contains(pair.second) || !bounds.both()) continue;
      // Drift, or a wall clock that was set, can make the bounds cross.
      const std::int64_t gap = bounds.most - bounds.least;
      const std::int64_t difference = bounds.least + gap / 2;
      const Alignment& base = aligned[known];
      aligned[pair.second] = {.add_ns = base.add_ns - difference,
                              .error_ns = base.error_ns + std::max(gap, -gap) / 2,
                              .by_wall_clock = base.by_wall_clock};
      open.push_back(pair.second);
    }
  }
  for (const WallClock& clock : clocks)
    if (!aligned.contains(clock.boot))
      aligned[clock.boot] = {.add_ns = clocks.front().offset_ns - clock.offset_ns,
                             .error_ns = 0,
                             .by_wall_clock = true};
  return aligned;
}

}  // namespace weft::tool
