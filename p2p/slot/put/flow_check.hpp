// The questions of WEFT_CHECK=flow about puts without a credit into synchronous slots.
#pragma once

#include <cstdint>

namespace weft::p2p {

/// At most one question, about the first pending put. It decides: a credit that comes after the put
/// was asked for changes nothing. Requires the mutex of the pending puts.
class FlowCheck {
 public:
  /// The put with this ticket goes when the owner has answered.
  void open(std::uint64_t ticket) noexcept { open_ = ticket; }
  bool awaits(std::uint64_t ticket) const noexcept { return open_ == ticket; }
  /// Whether the owner is to be asked now; remembers that it was.
  bool must_ask(std::uint64_t ticket) noexcept {
    if (open_ != ticket || asked_ == ticket) return false;
    asked_ = ticket;
    return true;
  }
  void close() noexcept { open_ = 0; }

 private:
  std::uint64_t open_ = 0;   ///< a ticket; 0: none
  std::uint64_t asked_ = 0;  ///< the last ticket that was asked about
};

}  // namespace weft::p2p
