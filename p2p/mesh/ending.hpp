// What a rank says of its own end.
#pragma once

#include <cstddef>
#include <span>

#include "p2p/mesh/messages.hpp"

namespace weft::p2p {

/// Whether a control message tells of its sender's end: it must not stand behind tensors that are
/// under way, which may never get there.
inline bool tells_of_end(std::span<const std::byte> message) noexcept {
  const auto ending = parse<EndingMessage>(message);
  return ending && ending->type == EndingMessage::kType;
}

}  // namespace weft::p2p
