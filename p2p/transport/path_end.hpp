// The end of a path and its reason, for callers that still want to use it.
#pragma once

#include <mutex>
#include <utility>

#include "weft/error.hpp"

namespace weft::p2p {

/// The first who ends it says why. Thread-safe.
class PathEnd {
 public:
  explicit PathEnd(int peer) noexcept : peer_(peer) {}

  /// From now on it is over; `why` is ok when the peer has left in order. False: it was before.
  bool decide(Status why) noexcept {
    const std::lock_guard lock(mutex_);
    if (std::exchange(decided_, true)) return false;
    why_ = std::move(why);
    return true;
  }
  /// Calls `act` if it is not over; it won't be before that has returned. False: it is.
  template <typename Act>
  bool unless_decided(const Act& act) noexcept {
    const std::lock_guard lock(mutex_);
    if (!decided_) act();
    return !decided_;
  }
  /// Why the operation can't be done: the reason, or that there is no path yet.
  Status refusal(const char* operation) const;

 private:
  const int peer_;
  mutable std::mutex mutex_;
  Status why_;
  bool decided_ = false;
};

}  // namespace weft::p2p
