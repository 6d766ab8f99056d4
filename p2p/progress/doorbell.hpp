// The word on which a rank's threads sleep, and which whoever makes something happen for it rings.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/os/futex.hpp"

namespace weft::p2p {

/// One cache line of a rank's control arena, mapped by its same-host peers.
/// Ringer: make the thing visible, barrier, then ring if wanted().
/// Sleeper: announce, barrier, read `word`, look once more, sleep on `word`.
/// The two sides' store-then-load order makes sure that at least one sees the other. One side's
/// barrier may be the other's: WaitPolicy::barrier_before_sleep.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> word;
  std::atomic<std::uint32_t> sleepers;  ///< threads of the rank asleep, or about to be
  std::atomic<std::uint32_t> armed;     ///< its progress thread wants its event descriptor written

  bool wanted() const noexcept {
    return (sleepers.load(std::memory_order_relaxed) | armed.load(std::memory_order_relaxed)) != 0;
  }
  void wake_sleepers() noexcept {
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    word.fetch_add(1, std::memory_order_seq_cst);
    os::futex_wake(word, 1 << 30);
  }
  /// Wakes the rank's sleepers. Returns whether the event descriptor must be written too.
  bool ring() noexcept {
    wake_sleepers();
    return armed.load(std::memory_order_relaxed) != 0 &&
           armed.exchange(0, std::memory_order_seq_cst) != 0;
  }
};
static_assert(sizeof(Doorbell) == 64);

}  // namespace weft::p2p
