// Lets one side close something that the other side may be in the middle of using.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/os/asymmetric_barrier.hpp"

namespace weft::p2p {

/// A user enters and leaves; a closer, on another thread, shuts the gate. `on_drained` runs exactly
/// once, on the thread that brings it about: when the gate is shut and nobody is inside. From then
/// on the closer may open it again. Never blocks. Entering and leaving cost no locked instruction:
/// one thread at a time uses it. One made without what to do when drained has still to be opened.
class UseGate {
 public:
  UseGate() = default;
  explicit UseGate(std::function<void()> on_drained)
      : state_(State::open), on_drained_(std::move(on_drained)) {}
  /// Call before the gate is opened.
  void on_drained(std::function<void()> act) { on_drained_ = std::move(act); }

  /// False once shut; then there is nothing to leave. May be entered again while inside. Writes
  /// made before the gate was opened are seen inside.
  [[gnu::always_inline]] bool enter() noexcept {
    inside_.store(inside_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    os::light_barrier();
    if (state_.load(std::memory_order_acquire) == State::open) return true;
    leave();
    return false;
  }
  [[gnu::always_inline]] void leave() noexcept {
    inside_.store(inside_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    os::light_barrier();
    if (state_.load(std::memory_order_acquire) == State::shut) drained_if_empty();
  }
  void shut() noexcept {
    State open = State::open;
    if (!state_.compare_exchange_strong(open, State::shut)) return;
    os::heavy_barrier();
    drained_if_empty();
  }
  bool is_shut() const noexcept { return state_.load(std::memory_order_acquire) != State::open; }
  bool is_drained() const noexcept {
    return state_.load(std::memory_order_acquire) == State::drained;
  }
  /// Requires is_drained().
  void open() noexcept { state_.store(State::open, std::memory_order_release); }

 private:
  enum class State : std::uint8_t { open, shut, draining, drained };

  void drained_if_empty() noexcept {
    State shut = State::shut;
    if (inside_.load(std::memory_order_acquire) != 0 ||
        !state_.compare_exchange_strong(shut, State::draining))
      return;
    on_drained_();
    state_.store(State::drained, std::memory_order_release);  // the closer may open it again
  }

  std::atomic<std::uint32_t> inside_{0};
  std::atomic<State> state_{State::drained};
  std::function<void()> on_drained_;
};

}  // namespace weft::p2p
