// Connections that were no rank of the job: counted, and logged in a line from time to time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "weft/deadline.hpp"

namespace weft::p2p {

/// A rank's account of connections that it rejected, of whatever kind. However many come, their
/// lines don't fill a log. note() from one thread at a time, count() from any.
class RejectedConnections {
 public:
  static constexpr std::chrono::seconds kQuiet{10};  ///< between two lines

  /// One more. `place`: where it came in, as "port 4711"; `from`: who it is, as far as is known.
  void note(Log& log, std::string_view place, std::string_view from, std::string_view reason) {
    add(1);
    if (const std::uint64_t unsaid = rejected_.to_say(); unsaid > 0)
      log.warn(Subsystem::path, "{} connection(s) rejected, the last at {} from {}: {}", unsaid,
               place, from, reason);
  }
  /// A connection that this process closed because it lacks descriptors. It may be a rank's, so it
  /// is not counted.
  void note_closed(Log& log, std::string_view place, std::string_view from) {
    if (const std::uint64_t unsaid = closed_.to_say(); unsaid > 0)
      log.warn(Subsystem::path,
               "this process lacks descriptors: it closed {} connection(s) that had not said yet "
               "which rank they are, the last at {} from {}; a rank calls again; raise the limit "
               "of open files (ulimit -n)",
               unsaid, place, from);
  }
  /// Adds `rejected` connections that are logged already.
  void add(std::uint64_t rejected) { count_->fetch_add(rejected, std::memory_order_relaxed); }
  std::uint64_t count() const noexcept { return count_->load(std::memory_order_relaxed); }
  /// Before the first note(): counts in `place`, which must outlive this.
  void count_in(std::atomic<std::uint64_t>& place) noexcept { count_ = &place; }

 private:
  struct Lines {
    std::uint64_t unsaid = 0;  ///< since the last line
    Clock::time_point next{};

    /// One more. Returns how many a line is due for; 0: none is due.
    std::uint64_t to_say() {
      ++unsaid;
      const auto now = Clock::now();
      if (now < next) return 0;
      next = now + kQuiet;
      return std::exchange(unsaid, 0);
    }
  };

  std::atomic<std::uint64_t> own_{0};
  std::atomic<std::uint64_t>* count_ = &own_;
  Lines rejected_;
  Lines closed_;
};

}  // namespace weft::p2p
