// What a rank's threads sleep for, on its stats segment.
#pragma once

#include <cstdint>
#include <span>

#include "base/stats/layout.hpp"
#include "base/stats/recorder.hpp"
#include "weft/deadline.hpp"

namespace weft::stats {

/// Who is waited for, and for what.
struct WaitAbout {
  Operation operation = Operation::none;
  int peer = -1;  ///< -1: nobody in particular
  std::uint64_t slot = 0;
  std::uint64_t sequence = 0;
};

/// Lends entries to threads that go to sleep. With none left a wait is not shown.
/// Thread-safety: any number of threads.
class Waits {
 public:
  /// Shorter waits are not recorded.
  static constexpr std::chrono::milliseconds kLong{1};

  Waits(std::span<WaitEntry> entries, Recorder& recorder) noexcept
      : entries_(entries), recorder_(recorder) {}

  /// Null when none is left.
  WaitEntry* show(const WaitAbout& about, Clock::time_point since,
                  Clock::time_point until) noexcept;
  /// The wait is over; a long one becomes a record. `entry` may be null.
  void end(WaitEntry* entry, const WaitAbout& about, Clock::time_point since) noexcept;

 private:
  const std::span<WaitEntry> entries_;
  Recorder& recorder_;
};

}  // namespace weft::stats
