// Asymmetric store-load fences: cheap on the frequent side, expensive on the rare side.
#pragma once

#include <atomic>

namespace weft::os {

namespace detail {
/// True if the kernel can make every thread of this process pass a barrier on request (membarrier).
extern const bool kHasMembarrier;
}  // namespace detail

/// For the frequent side, between its store and its load. Only a compiler barrier if the kernel has
/// membarrier.
[[gnu::always_inline]] inline void light_barrier() noexcept {
#if !defined(__SANITIZE_THREAD__)
  if (!detail::kHasMembarrier) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return;
  }
#endif
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// For the rare side, between its store and its load: makes every thread of this process pass a
/// full barrier before it returns. Takes microseconds.
void heavy_barrier() noexcept;

/// True if global_barrier() reaches this process. A process that it does not reach must use its own
/// fences.
bool joins_global_barriers() noexcept;
/// As heavy_barrier(), for every thread of every process for which joins_global_barriers() is true.
void global_barrier() noexcept;

}  // namespace weft::os
