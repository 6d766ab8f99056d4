// Lets one side close something that the other side may be in the middle of using.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::p2p {

/// Users enter and leave; a closer shuts the gate once. Exactly one of them, the last user or the
/// closer, learns that the gate is shut and nobody is inside. Never blocks. Any number of threads.
class UseGate {
 public:
  /// False once shut; then there is nothing to leave.
  bool enter() noexcept {
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    do {
      if ((seen & kShut) != 0) return false;
    } while (!word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    return true;
  }
  /// True: the gate is shut and this was the last user.
  bool leave() noexcept { return word_.fetch_sub(1, std::memory_order_acq_rel) == (kShut | 1); }
  /// True: nobody was inside. Call once.
  bool shut() noexcept { return word_.fetch_or(kShut, std::memory_order_acq_rel) == 0; }
  bool is_shut() const noexcept { return (word_.load(std::memory_order_acquire) & kShut) != 0; }

 private:
  static constexpr std::uint32_t kShut = 1u << 31;
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace weft::p2p
