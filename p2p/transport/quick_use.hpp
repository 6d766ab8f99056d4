// Excludes changes of something from its use, where the use must cost next to nothing.
#pragma once

#include <sched.h>

#include <atomic>

#include "base/os/asymmetric_barrier.hpp"

namespace weft::p2p {

/// One thread at a time uses it, without a locked instruction; one thread at a time changes it, and
/// waits until a use that is under way has ended. A use sees all changes that have ended.
class QuickUse {
 public:
  /// False: a change is under way, and there is nothing to leave.
  bool enter() noexcept {
    inside_.store(true, std::memory_order_relaxed);
    os::light_barrier();
    if (!changing_.load(std::memory_order_acquire)) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() noexcept { inside_.store(false, std::memory_order_release); }

  /// Uses are short: this waits for the end of one at most.
  void begin_change() noexcept {
    changing_.store(true, std::memory_order_relaxed);
    os::heavy_barrier();
    while (inside_.load(std::memory_order_acquire)) sched_yield();
  }
  void end_change() noexcept { changing_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> changing_{false};
};

}  // namespace weft::p2p
