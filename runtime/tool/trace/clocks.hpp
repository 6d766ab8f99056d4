// How far the clocks of several kernels are apart, from what ranks said to each other.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace weft::tool {

/// Something that left one kernel's rank before it came to another's, each by its own clock.
struct Crossing {
  std::string from;  ///< boots
  std::string to;
  std::int64_t left_ns = 0;
  std::int64_t came_ns = 0;
};

/// What a kernel's clock says when the wall clock of its host shows 1970.
struct WallClock {
  std::string boot;
  std::int64_t offset_ns = 0;  ///< CLOCK_MONOTONIC - CLOCK_REALTIME
};

struct Alignment {
  std::int64_t add_ns = 0;     ///< to the clock, to have the first kernel's
  std::int64_t error_ns = 0;   ///< it is right within plus or minus so much
  bool by_wall_clock = false;  ///< nothing crossed both ways: as good as the hosts' wall clocks
};

/// By boot; the first of `clocks` is what the others are aligned to. What goes from A to B takes
/// time, so each crossing bounds the difference of the clocks from one side, and crossings both
/// ways from both: the middle is taken, half the gap is the error. Clocks are taken to run at one
/// rate: by 50 parts per million they drift apart 3 ms a minute.
std::map<std::string, Alignment> align(std::span<const WallClock> clocks,
                                       std::span<const Crossing> crossings);

}  // namespace weft::tool
