// How long a writer's first pending put has waited for a credit.
#pragma once

#include <cstdint>

#include "p2p/slot/attach/slot_messages.hpp"
#include "weft/deadline.hpp"

namespace weft::p2p {

/// The progress thread's. The owner does not report every credit: a writer that is held up asks.
class HeldUp {
 public:
  bool was_asked_for(std::uint64_t ticket) const noexcept { return asked_for_ == ticket; }
  /// Whether `ticket` has been at the front for long enough to ask; remembers that it was asked
  /// for.
  bool must_ask(std::uint64_t ticket) noexcept {
    const auto now = Deadline::Clock::now();
    if (ticket_ != ticket) {
      ticket_ = ticket;
      since_ = now;
    }
    if (now - since_ < kHeldUp) return false;
    asked_for_ = ticket;
    return true;
  }

 private:
  std::uint64_t ticket_ = 0;
  Deadline::Clock::time_point since_{};
  std::uint64_t asked_for_ = 0;
};

}  // namespace weft::p2p
