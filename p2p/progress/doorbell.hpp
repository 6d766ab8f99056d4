// A rank's doorbell: the futex word its threads sleep on, rung by other threads and by same-host
// peers.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/os/futex.hpp"

namespace weft::p2p {

/// One cache line of a rank's control arena, mapped by its same-host peers.
/// A ringer makes its data visible, passes a barrier, then rings if `wanted()`.
/// A sleeper increments `sleepers`, passes a barrier, reads `word`, polls once more, then sleeps on
/// `word`.
/// Both sides store, then load, so at least one of them sees the other. The sleeper's barrier can
/// stand in for the ringer's: see WaitPolicy::barrier_before_sleep.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> word;
  std::atomic<std::uint32_t> sleepers;  ///< threads of the rank that sleep or are about to
  std::atomic<std::uint32_t> armed;     ///< the progress thread wants its eventfd written

  bool wanted() const noexcept {
    return (sleepers.load(std::memory_order_relaxed) | armed.load(std::memory_order_relaxed)) != 0;
  }
  void wake_sleepers() noexcept {
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    word.fetch_add(1, std::memory_order_seq_cst);
    os::futex_wake(word, 1 << 30);
  }
  /// Wakes the rank's sleepers. Returns true if the caller must also write the rank's eventfd.
  bool ring() noexcept {
    wake_sleepers();
    return armed.load(std::memory_order_relaxed) != 0 &&
           armed.exchange(0, std::memory_order_seq_cst) != 0;
  }
};
static_assert(sizeof(Doorbell) == 64);

}  // namespace weft::p2p
