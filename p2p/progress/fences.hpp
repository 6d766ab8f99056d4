// Memory fences for the protocols between ranks.
#pragma once

#include <atomic>

namespace weft::p2p {

/// Orders every earlier store before every later load, as seen by all threads and processes.
inline void full_barrier() noexcept {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences; a read-modify-write has the same effect on the
  // processor.
  static std::atomic<int> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Orders every earlier load before every later load.
inline void load_barrier() noexcept {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

/// Like load_barrier(), for loads of data that a device wrote: a device shares only the outer
/// shareable domain with the processors, so aarch64 needs the wider barrier.
inline void device_load_barrier() noexcept {
#if defined(__aarch64__)
  asm volatile("dmb oshld" ::: "memory");
#else
  load_barrier();
#endif
}

}  // namespace weft::p2p
