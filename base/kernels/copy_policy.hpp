// The choice between cached and streamed copies for a slot, learned from its own puts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace weft::p2p {

/// Chooses whether a slot's puts are copied through the writer's cache or past it. The better way
/// depends on what the reader does with the tensor, which the writer can't know but can measure:
/// lines that the reader has fetched are slow to take back. So both ways are tried for a few puts
/// each, the faster one is kept, and the trial is repeated from time to time. The first half of
/// each trial is not measured: it only brings the caches into the state that the way leaves behind.
/// No cost between trials. Thread-safety: one thread at a time.
class CopyChoice {
 public:
  explicit CopyChoice(std::uint32_t depth) noexcept : trial_(2 * depth) {}

  bool streams() const noexcept { return streams_; }
  bool wants_time() const noexcept { return phase_ != Phase::settled; }
  /// Called after each put. `ticks` is the duration of its copy, used only while wants_time().
  void done(std::uint64_t ticks) noexcept {
    if (phase_ != Phase::settled && puts_ >= trial_ / 2 && ticks < best_[streams_ ? 1 : 0])
      best_[streams_ ? 1 : 0] = ticks;
    if (++puts_ < (phase_ == Phase::settled ? hold_ * trial_ : trial_)) return;
    puts_ = 0;
    switch (phase_) {
      case Phase::settled:  // try the current way first: the caches are as it left them
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

  std::uint32_t trial_;     ///< number of puts per trial of one way
  std::uint32_t hold_ = 1;  ///< trials that a choice holds; starts at 1, as caches are cold
  std::uint32_t puts_ = 0;
  Phase phase_ = Phase::first;
  bool streams_ = false;
  std::uint64_t best_[2] = {std::numeric_limits<std::uint64_t>::max(),
                            std::numeric_limits<std::uint64_t>::max()};
};

}  // namespace weft::p2p
