// Sends and receives that failed: whether the application has looked at their requests.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/unseen_failure.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p::message {

/// The last failed send or receive of a rank, until the application has looked at its request.
class UnseenFailures {
 public:
  /// Time for the application to look before the failure is logged.
  static constexpr std::chrono::seconds kGrace{1};

  explicit UnseenFailures(LocalRank& local) noexcept : local_(local) {}

  /// The status for the request; `why` itself if another rank has gone, which other errors tell, or
  /// the operation was cancelled. Any thread.
  Status keep(const Status& why) noexcept;
  bool is_kept() const noexcept { return is_kept_.load(std::memory_order_relaxed); }
  /// The application looks at a request's outcome.
  void look_at(const Status& outcome) noexcept;
  /// Progress thread: logs the failure once its grace is over.
  void serve() noexcept;
  /// The rank leaves: logs the failure at once.
  void finish() noexcept;

 private:
  void log() noexcept;

  LocalRank& local_;
  std::atomic<bool> is_kept_{false};
  std::mutex mutex_;  ///< guards the following members
  std::shared_ptr<const UnseenFailure> failure_;
  Clock::time_point since_{};
  bool is_logged_ = false;
};

}  // namespace weft::p2p::message
