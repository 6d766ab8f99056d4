// The point in time at which a wait ends.
#pragma once

#include <chrono>
#include <optional>

#include "weft/api.hpp"

namespace weft {

/// The time that weft's waits go by: the machine's steady clock, unless a test simulates a job on
/// the calling thread. Thread-safety: any thread.
struct WEFT_API Clock {
  // NOLINTBEGIN(readability-identifier-naming): what the standard calls the parts of a clock
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  // NOLINTEND(readability-identifier-naming)

  static time_point now() noexcept;
};

/// Every wait takes one. A default-constructed Deadline stands for the world's own limit
/// (WEFT_TIMEOUT), counted from the start of the call. There is no "for ever".
/// Thread-safety: a value.
class Deadline {
 public:
  using Clock = weft::Clock;

  Deadline() noexcept = default;
  /// The last moment of the clock for a span beyond it.
  static Deadline after(std::chrono::nanoseconds span) noexcept {
    const Clock::time_point now = Clock::now();
    const bool is_beyond = span > Clock::time_point::max() - now;
    return Deadline(is_beyond ? Clock::time_point::max() : now + span);
  }
  static Deadline at(Clock::time_point when) noexcept { return Deadline(when); }

  bool is_default() const noexcept { return !when_; }
  /// This deadline, or `fallback` from now for a default one.
  Deadline resolve(std::chrono::nanoseconds fallback) const noexcept {
    return when_ ? *this : after(fallback);
  }
  /// Requires !is_default().
  Clock::time_point when() const noexcept { return *when_; }
  bool passed() const noexcept { return Clock::now() >= *when_; }
  std::chrono::nanoseconds left() const noexcept { return *when_ - Clock::now(); }

 private:
  explicit Deadline(Clock::time_point when) noexcept : when_(when) {}
  std::optional<Clock::time_point> when_;
};

}  // namespace weft
