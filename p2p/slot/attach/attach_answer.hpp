// The owner's answer to an attach.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "weft/error.hpp"

namespace weft::p2p {

/// The progress thread sets it, the application's thread waits for it.
class AttachAnswer {
 public:
  enum class State : std::uint8_t { asked, granted, refused, withdrawn };
  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  /// Requires state() == refused.
  const Status& refusal() const noexcept { return refusal_; }
  /// Whether the slot had been closed before it was asked for. It may be exposed again.
  bool was_too_late() const noexcept { return too_late_.load(); }

  void grant() noexcept { state_.store(State::granted, std::memory_order_release); }
  void refuse(Status why) noexcept {
    refusal_ = std::move(why);
    state_.store(State::refused, std::memory_order_release);
  }
  void set_too_late() noexcept { too_late_.store(true); }
  /// No thread waits for the answer any more: a grant that comes now is not taken.
  void withdraw() noexcept { state_.store(State::withdrawn, std::memory_order_release); }

 private:
  std::atomic<State> state_{State::asked};
  std::atomic<bool> too_late_{false};
  Status refusal_;
};

}  // namespace weft::p2p
