// The lock of a queue pair's posts.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/os/futex.hpp"
#include "weft/deadline.hpp"

namespace weft::p2p::verbs {

/// A mutex whose two calls are inlined where nobody waits: a put takes it once. Those that wait
/// sleep. For std::lock_guard.
class PostLock {
 public:
  [[gnu::always_inline]] void lock() noexcept {
    std::uint32_t free = kFree;
    if (!state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed)) [[unlikely]]
      wait();
  }
  [[gnu::always_inline]] void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      os::futex_wake(state_, 1);
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kAwaited = 2;  ///< held, and perhaps another thread sleeps

  [[gnu::noinline, gnu::cold]] void wait() noexcept {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
      os::futex_wait(state_, kAwaited, Clock::time_point::max());
  }

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace weft::p2p::verbs
