// A store-then-look fence whose whole cost is on the side that needs it seldom.
#pragma once

#include <atomic>

namespace weft::os {

namespace detail {
/// Whether the kernel makes every thread of this process pass a barrier when it is asked to.
extern const bool kHasMembarrier;
}  // namespace detail

/// The frequent side, between its store and its look. Free where the kernel has membarrier.
inline void light_barrier() noexcept {
#if !defined(__SANITIZE_THREAD__)
  if (!detail::kHasMembarrier) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return;
  }
#endif
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// The rare side, between its store and its look: every thread of this process passes a full
/// barrier before it returns. Microseconds.
void heavy_barrier() noexcept;

/// Whether this process takes part in global_barrier(); one that does not must fence by itself.
bool joins_global_barriers() noexcept;
/// As heavy_barrier(), for every thread of every process that joins global barriers.
void global_barrier() noexcept;

}  // namespace weft::os
