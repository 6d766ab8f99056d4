// The rules by which silence or a standstill makes a rank slow, suspect or dead.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "weft/report.hpp"

namespace weft::detail {

/// The rules of WEFT_DEAD_AFTER. Time is counted in periods of the observer's own timer, each
/// counted once however late it expires: an observer that did not run, or ran seldom, blames no
/// other rank.
class Patience {
 public:
  /// `dead_after`: nullopt means that no rank is ever dead; slow and suspect then follow the
  /// default of 10 s.
  explicit Patience(std::optional<std::chrono::nanoseconds> dead_after) noexcept
      : dead_after_(dead_after), scale_(dead_after.value_or(std::chrono::seconds(10))) {}

  std::chrono::nanoseconds period() const noexcept { return scale_ / kPeriods; }
  /// True if `expired` periods at once show that this process was stopped, which voids what it
  /// counted before. A small delay is no excuse: otherwise a busy machine would never find a dead
  /// rank.
  static bool was_stopped_itself(std::uint64_t expired) noexcept { return expired >= kPause; }

  PeerHealth of_silent(std::chrono::nanoseconds silence) const noexcept {
    if (dead_after_ && silence >= *dead_after_) return PeerHealth::dead;
    if (silence >= scale_ / 2) return PeerHealth::suspect;
    return silence >= kSlow * period() ? PeerHealth::slow : PeerHealth::alive;
  }
  /// For a rank that its kernel reports as stopped: the stop is certain, but it may be continued.
  PeerHealth of_stopped(std::chrono::nanoseconds standstill) const noexcept {
    return dead_after_ && standstill >= *dead_after_ ? PeerHealth::dead : PeerHealth::suspect;
  }

 private:
  static constexpr int kPeriods = 20;
  static constexpr std::uint64_t kPause = kPeriods / 4;
  /// A healthy rank misses at most two periods: one between its signs of life, one in transit.
  static constexpr int kSlow = 3;

  std::optional<std::chrono::nanoseconds> dead_after_;
  std::chrono::nanoseconds scale_;
};

}  // namespace weft::detail
