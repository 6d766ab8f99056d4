// A rendezvous' message on the path's control channel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "p2p/slot/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"

namespace weft::p2p {

inline constexpr std::size_t kMaxRendezvousName = 100;
/// The name by which members know an exchange: that of the spec, and which group they are, in 17
/// bytes.
inline constexpr std::size_t kMaxSharedName = kMaxRendezvousName + 17;
inline constexpr std::size_t kMaxRendezvousMessage = 1536;

/// A message that names memory of a chunk which the peer may not know yet: it follows the chunk on
/// the control channel, where order holds.
struct RendezvousOnControl {
  static constexpr MessageType kType = MessageType::rendezvous;
  MessageType type = kType;
  FixedText<kMaxSharedName + 1> name;
  std::array<std::byte, kMaxRendezvousMessage> bytes{};
};
static_assert(sizeof(RendezvousOnControl) <= Channel::kMaxMessage);

}  // namespace weft::p2p
