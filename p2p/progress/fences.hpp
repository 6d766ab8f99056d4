// The fences that the protocols between ranks need.
#pragma once

#include <atomic>

namespace weft::p2p {

/// Orders every store before it against every load after it, for all threads and processes.
inline void full_barrier() noexcept {
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer knows no fences; a read-modify-write has the same effect on the processor.
  static std::atomic<int> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Orders every load before it against every load after it.
inline void load_barrier() noexcept {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

/// The same where a device wrote what the loads before it read: its writes and this processor's
/// loads share a wider domain than processors do among themselves.
inline void device_load_barrier() noexcept {
#if defined(__aarch64__)
  asm volatile("dmb oshld" ::: "memory");
#else
  load_barrier();
#endif
}

}  // namespace weft::p2p
