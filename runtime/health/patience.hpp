// How long a rank may give no sign of life, and what is thought of it meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "weft/report.hpp"

namespace weft::detail {

/// WEFT_DEAD_AFTER as rules. Times are counted in periods of the judge's own timer, each once
/// however late it came: a rank that did not run itself, or seldom, blames nobody for it.
class Patience {
 public:
  /// Nothing: nobody is ever dead, but slow and suspect as by default.
  explicit Patience(std::optional<std::chrono::nanoseconds> dead_after) noexcept
      : dead_after_(dead_after), scale_(dead_after.value_or(std::chrono::seconds(10))) {}

  std::chrono::nanoseconds period() const noexcept { return scale_ / kPeriods; }
  /// So many periods at a time: this process was stopped, and what it counted before is void. A
  /// little late is no excuse, or on a busy machine a dead rank would never be found.
  static bool was_stopped_itself(std::uint64_t expired) noexcept { return expired >= kPause; }

  PeerHealth of_silent(std::chrono::nanoseconds silence) const noexcept {
    if (dead_after_ && silence >= *dead_after_) return PeerHealth::dead;
    if (silence >= scale_ / 2) return PeerHealth::suspect;
    return silence >= kSlow * period() ? PeerHealth::slow : PeerHealth::alive;
  }
  /// Its kernel says that it is stopped: certain, but it may go on.
  PeerHealth of_stopped(std::chrono::nanoseconds standstill) const noexcept {
    return dead_after_ && standstill >= *dead_after_ ? PeerHealth::dead : PeerHealth::suspect;
  }

 private:
  static constexpr int kPeriods = 20;
  static constexpr std::uint64_t kPause = kPeriods / 4;
  /// A healthy rank misses two periods at most: one between its signs, one by their travel.
  static constexpr int kSlow = 3;

  std::optional<std::chrono::nanoseconds> dead_after_;
  std::chrono::nanoseconds scale_;
};

}  // namespace weft::detail
