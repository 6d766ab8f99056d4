// The lock of a completion queue.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace weft::p2p::verbs {

/// Held while completions are handled. Those that poll, and poll again anyway, pay one locked
/// instruction for it and give way to those that need it. For std::lock_guard and std::unique_lock.
class PollLock {
 public:
  /// For those that poll. False too while another thread waits in lock().
  bool try_lock() noexcept {
    return waiting_.load(std::memory_order_relaxed) == 0 &&
           !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() noexcept {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    // Yielding does not let a holder of lower priority run, a pause does.
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries)
      if (tries < kYields)
        sched_yield();
      else
        std::this_thread::sleep_for(kPause);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kYields = 64;
  static constexpr std::chrono::microseconds kPause{50};

  std::atomic<bool> held_{false};
  std::atomic<int> waiting_{0};  ///< threads in lock()
};

}  // namespace weft::p2p::verbs
