// Connections that were no rank of the job: counted, and logged in a line from time to time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

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
    count_->fetch_add(1, std::memory_order_relaxed);
    ++unsaid_;
    const auto now = Clock::now();
    if (now < next_line_) return;
    log.warn(Subsystem::path, "{} connection(s) rejected, the last at {} from {}: {}", unsaid_,
             place, from, reason);
    unsaid_ = 0;
    next_line_ = now + kQuiet;
  }
  std::uint64_t count() const noexcept { return count_->load(std::memory_order_relaxed); }
  /// Before the first note(): counts in `place`, which must outlive this.
  void count_in(std::atomic<std::uint64_t>& place) noexcept { count_ = &place; }

 private:
  std::atomic<std::uint64_t> own_{0};
  std::atomic<std::uint64_t>* count_ = &own_;
  std::uint64_t unsaid_ = 0;  ///< since the last line
  Clock::time_point next_line_{};
};

}  // namespace weft::p2p
