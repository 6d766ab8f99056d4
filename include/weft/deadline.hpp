// Deadlines: the point in time at which a wait ends.
#pragma once

#include <chrono>
#include <concepts>
#include <optional>

#include "weft/api.hpp"

namespace weft {

/// The clock of all waits: the machine's steady clock, or the simulated one if a test runs a
/// simulated job on the calling thread. Thread-safety: any thread.
struct WEFT_API Clock {
  // NOLINTBEGIN(readability-identifier-naming): names that the standard requires of a clock
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  // NOLINTEND(readability-identifier-naming)

  static time_point now() noexcept;
};

/// The end of a wait; every call that waits takes one. A default-constructed Deadline means the
/// world's own limit (WEFT_TIMEOUT), counted from the start of the call. There is no infinite wait.
/// Thread-safety: a value.
class Deadline {
 public:
  using Clock = weft::Clock;

  Deadline() noexcept = default;
  /// `span` from now; the clock's last moment if that lies beyond it.
  static Deadline after(std::chrono::nanoseconds span) noexcept {
    const Clock::time_point now = Clock::now();
    const bool is_beyond = span > Clock::time_point::max() - now;
    return Deadline(is_beyond ? Clock::time_point::max() : now + span);
  }
  /// The same for a span of coarser units, which may be longer than nanoseconds can count.
  template <std::integral Rep, typename Period>
  static Deadline after(std::chrono::duration<Rep, Period> span) noexcept {
    using std::chrono::nanoseconds;
    const std::chrono::duration<double> seconds(span);
    if (seconds >= nanoseconds::max()) return after(nanoseconds::max());
    if (seconds <= nanoseconds::min()) return after(nanoseconds::min());
    return after(std::chrono::duration_cast<nanoseconds>(span));
  }
  /// The moment `when`.
  static Deadline at(Clock::time_point when) noexcept { return Deadline(when); }

  /// True for a default-constructed Deadline. The members below other than resolve() require false.
  bool is_default() const noexcept { return !when_; }
  /// This deadline; for a default one, `fallback` from now.
  Deadline resolve(std::chrono::nanoseconds fallback) const noexcept {
    return when_ ? *this : after(fallback);
  }
  Clock::time_point when() const noexcept { return *when_; }
  bool passed() const noexcept { return Clock::now() >= *when_; }
  /// Negative once the deadline has passed, and never beyond what nanoseconds can count.
  std::chrono::nanoseconds left() const noexcept {
    // The clock counts from 0 up, so only a difference below the smallest count can overflow.
    const std::chrono::nanoseconds now = Clock::now().time_since_epoch();
    const std::chrono::nanoseconds when = when_->time_since_epoch();
    const bool is_beyond = when < std::chrono::nanoseconds::min() + now;
    return is_beyond ? std::chrono::nanoseconds::min() : when - now;
  }

 private:
  explicit Deadline(Clock::time_point when) noexcept : when_(when) {}
  std::optional<Clock::time_point> when_;
};

}  // namespace weft
