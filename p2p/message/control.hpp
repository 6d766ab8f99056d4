// Control messages that set up a ring, exchanged once per sender and receiver that use one.
#pragma once

#include <cstdint>

#include "p2p/message/ring.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"

namespace weft::p2p::message {

/// Sender to receiver: requests a ring, because a first message waits for one.
struct RingWanted {
  static constexpr MessageType kType = MessageType::ring_wanted;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  MemoryRef words;  ///< the sender's SenderWords
};

/// Receiver to sender.
struct RingGranted {
  static constexpr MessageType kType = MessageType::ring_granted;
  MessageType type = kType;
  std::uint32_t notification_id = 0;  ///< of the cells' words, on the receiver's channel
  MemoryRef ring;
  Geometry geometry;
};

/// Receiver to sender: no ring can be had.
struct RingRefused {
  static constexpr MessageType kType = MessageType::ring_refused;
  MessageType type = kType;
  std::uint32_t code = 0;
  FixedText<512> text;
};

}  // namespace weft::p2p::message
