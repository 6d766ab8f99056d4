// Lets one side close something that the other side may be in the middle of using.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/os/asymmetric_barrier.hpp"

namespace weft::p2p {

/// A user enters and leaves; a closer, on another thread, shuts the gate once. `on_drained` runs
/// exactly once, on the thread that brings it about: when the gate is shut and nobody is inside.
/// Never blocks. Entering and leaving cost no locked instruction: one thread at a time uses it.
class UseGate {
 public:
  explicit UseGate(std::function<void()> on_drained) : on_drained_(std::move(on_drained)) {}

  /// False once shut; then there is nothing to leave. May be entered again while inside.
  bool enter() noexcept {
    inside_.store(inside_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    os::light_barrier();
    if (!shut_.load(std::memory_order_acquire)) return true;
    leave();
    return false;
  }
  void leave() noexcept {
    inside_.store(inside_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    os::light_barrier();
    if (shut_.load(std::memory_order_acquire)) drained_if_empty();
  }
  void shut() noexcept {
    shut_.store(true, std::memory_order_release);
    os::heavy_barrier();
    drained_if_empty();
  }
  bool is_shut() const noexcept { return shut_.load(std::memory_order_acquire); }

 private:
  void drained_if_empty() noexcept {
    if (inside_.load(std::memory_order_acquire) == 0 && !drained_.exchange(true)) on_drained_();
  }

  std::atomic<std::uint32_t> inside_{0};
  std::atomic<bool> shut_{false};
  std::atomic<bool> drained_{false};
  const std::function<void()> on_drained_;
};

}  // namespace weft::p2p
