// A rendezvous message sent on the path's control channel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"

namespace weft::p2p {

inline constexpr std::size_t kMaxRendezvousName = 100;
/// An exchange's name as its members share it: the name of the spec, plus 17 bytes that identify
/// the group.
inline constexpr std::size_t kMaxSharedName = kMaxRendezvousName + 17;
inline constexpr std::size_t kMaxRendezvousMessage = 1536;

/// A message that names memory in a chunk the peer may not know yet. Sent on the control channel,
/// which preserves order, after the message that shares the chunk.
struct RendezvousOnControl {
  static constexpr MessageType kType = MessageType::rendezvous;
  MessageType type = kType;
  FixedText<kMaxSharedName + 1> name;
  std::array<std::byte, kMaxRendezvousMessage> bytes{};
  std::array<std::byte, 2> reserved{};
};
static_assert(sizeof(RendezvousOnControl) <= Channel::kMaxMessage);

}  // namespace weft::p2p
