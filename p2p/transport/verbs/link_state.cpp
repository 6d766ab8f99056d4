#include "p2p/transport/verbs/link_state.hpp"

#include <utility>

namespace weft::p2p::verbs {

bool LinkState::may_be_lost() const noexcept {
  return phase_ == LinkPhase::up || phase_ == LinkPhase::offered || phase_ == LinkPhase::proving ||
         phase_ == LinkPhase::proven;
}

bool LinkState::lose() noexcept {
  if (!may_be_lost()) return false;
  phase_ = LinkPhase::draining;
  return true;
}

void LinkState::advance() noexcept {
  phase_ = phase_ == LinkPhase::proven
               ? LinkPhase::up
               : static_cast<LinkPhase>(static_cast<std::uint8_t>(phase_) + 1);
  close_generation();
}

/// At once, as the peer's next words may be of the next one.
void LinkState::close_generation() noexcept {
  if (phase_ != LinkPhase::settled || !peer_.settled) return;
  phase_ = LinkPhase::quiet;
  peer_ = {};
  ++generation_;
}

bool LinkState::may_be_resent() const noexcept {
  const bool has_told =
      phase_ == LinkPhase::told || phase_ == LinkPhase::settling || phase_ == LinkPhase::settled;
  return has_told && peer_.down && !peer_.settled;
}

/// `down` may have passed by words that were said before.
bool LinkState::may_hear_late() const noexcept { return peer_.down && !peer_.settled; }

bool LinkState::hear(LinkMessage::Type type, std::uint32_t generation) noexcept {
  // Said again, before the peer knew that this end had heard it.
  if (type == LinkMessage::Type::down && generation + 1 == generation_) return true;
  if (generation != generation_) return false;
  const bool is_losing = phase_ == LinkPhase::draining || phase_ == LinkPhase::told;
  switch (type) {
    case LinkMessage::Type::down:
      return peer_.down = true;
    case LinkMessage::Type::resent:
      return may_be_resent();
    case LinkMessage::Type::settled:
      if (!may_be_resent()) return false;
      peer_.settled = true;
      close_generation();
      return true;
    case LinkMessage::Type::again: {
      const bool may = is_losing || phase_ == LinkPhase::quiet || phase_ == LinkPhase::resetting ||
                       phase_ == LinkPhase::offered;
      return (may_hear_late() || (may && !peer_.down)) && !std::exchange(peer_.again, true);
    }
    case LinkMessage::Type::ready: {
      const bool may = is_losing || phase_ == LinkPhase::proving || phase_ == LinkPhase::proven;
      return (may_hear_late() || (may && !peer_.down)) && peer_.again &&
             !std::exchange(peer_.ready, true);
    }
    case LinkMessage::Type::resumed: {
      const bool may = is_losing || phase_ == LinkPhase::proven || phase_ == LinkPhase::up;
      return (may_hear_late() || (may && !peer_.down)) && peer_.ready &&
             !std::exchange(peer_.resumed, true);
    }
  }
  return false;
}

}  // namespace weft::p2p::verbs
