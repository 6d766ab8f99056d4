// Which way of copying suits a slot: learned from the copies themselves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace weft::p2p {

/// Whether a put's copy should go through the writer's cache or past it depends on what the reader
/// does with the tensor, which the writer can't know but can feel: lines that the reader has
/// fetched are slow to take back. Both ways are tried for a few puts (the first round of buffers
/// only brings the caches into the state that the way leaves behind), the faster is kept, and now
/// and then both are tried again. Costs nothing between trials. One thread at a time.
class CopyChoice {
 public:
  explicit CopyChoice(std::uint32_t depth) noexcept : trial_(2 * depth) {}

  bool streams() const noexcept { return streams_; }
  bool wants_time() const noexcept { return phase_ != Phase::settled; }
  /// After each put; `ticks` only counts while wants_time().
  void done(std::uint64_t ticks) noexcept {
    if (phase_ != Phase::settled && puts_ >= trial_ / 2 && ticks < best_[streams_ ? 1 : 0])
      best_[streams_ ? 1 : 0] = ticks;
    if (++puts_ < (phase_ == Phase::settled ? hold_ * trial_ : trial_)) return;
    puts_ = 0;
    switch (phase_) {
      case Phase::settled:  // the way in use first: the caches are as it left them
        best_[0] = best_[1] = std::numeric_limits<std::uint64_t>::max();
        phase_ = Phase::first;
        break;
      case Phase::first:
        phase_ = Phase::second;
        streams_ = !streams_;
        break;
      case Phase::second:
        phase_ = Phase::settled;
        streams_ = best_[1] < best_[0];
        hold_ = std::min(2 * hold_, kLongestHold);
        break;
    }
  }

 private:
  enum class Phase : std::uint8_t { first, second, settled };
  static constexpr std::uint32_t kLongestHold = 64;

  std::uint32_t trial_;     ///< puts of a trial
  std::uint32_t hold_ = 1;  ///< how long a choice holds, in trials: the first saw cold caches
  std::uint32_t puts_ = 0;
  Phase phase_ = Phase::first;
  bool streams_ = false;
  std::uint64_t best_[2] = {std::numeric_limits<std::uint64_t>::max(),
                            std::numeric_limits<std::uint64_t>::max()};
};

}  // namespace weft::p2p
