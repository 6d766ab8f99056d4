// The waits of a rank's threads, in its stats segment.
#pragma once

#include <cstdint>
#include <span>

#include "base/stats/layout.hpp"
#include "base/stats/recorder.hpp"
#include "weft/deadline.hpp"

namespace weft::stats {

/// The subject of a wait: the operation and the peer.
struct WaitAbout {
  Operation operation = Operation::none;
  int peer = -1;  ///< -1: no particular peer
  std::uint64_t slot = 0;
  std::uint64_t sequence = 0;
  // Of Operation::step.
  std::uint8_t executor = 0;   ///< number of its entry, from 1
  std::uint16_t more = 0;      ///< further edges that it waits for
  std::uint64_t since_ns = 0;  ///< when the edge was first looked at; 0: the wait's own start
};

/// WaitEntry::what.
std::uint64_t pack(const WaitAbout& about) noexcept;

/// Lends entries to threads that go to sleep. A wait for which no entry is free is not shown.
/// Thread-safety: any number of threads.
class Waits {
 public:
  /// Shorter waits are not recorded.
  static constexpr std::chrono::milliseconds kLong{1};

  Waits(std::span<WaitEntry> entries, Recorder& recorder) noexcept
      : entries_(entries), recorder_(recorder) {}

  /// Null if no entry is free.
  WaitEntry* show(const WaitAbout& about, Clock::time_point since,
                  Clock::time_point until) noexcept;
  /// Ends the wait; a wait of at least kLong becomes a record. `entry` may be null.
  void end(WaitEntry* entry, const WaitAbout& about, Clock::time_point since) noexcept;

 private:
  const std::span<WaitEntry> entries_;
  Recorder& recorder_;
};

}  // namespace weft::stats
