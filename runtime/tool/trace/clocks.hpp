// Estimates the offsets between the clocks of several kernels from messages between ranks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace weft::tool {

/// A message that left a rank on one kernel and then arrived at a rank on another, each time by the
/// local clock.
struct Crossing {
  std::string from;  ///< boot identifiers of the kernels
  std::string to;
  std::int64_t left_ns = 0;
  std::int64_t came_ns = 0;
};

/// Offset of a kernel's monotonic clock from the wall clock of its host.
struct WallClock {
  std::string boot;
  std::int64_t offset_ns = 0;  ///< CLOCK_MONOTONIC - CLOCK_REALTIME
};

struct Alignment {
  std::int64_t add_ns = 0;     ///< add to this clock to get the first kernel's clock
  std::int64_t error_ns = 0;   ///< largest error of `add_ns` in either direction
  bool by_wall_clock = false;  ///< no crossings in both directions: only as good as the wall clocks
};

/// Returns the alignment of each boot to the first of `clocks`. A message from A to B takes time,
/// so each crossing bounds the clocks' difference from one side, and crossings in both directions
/// bound it from both: the middle is used, and half of the gap is the error. Clocks are assumed to
/// run at the same rate; a difference of 50 ppm adds up to 3 ms per minute.
std::map<std::string, Alignment> align(std::span<const WallClock> clocks,
                                       std::span<const Crossing> crossings);

}  // namespace weft::tool
