// How a ring comes to be: control messages, once for each sender and receiver that ever use one.
#pragma once

#include <cstdint>

#include "p2p/message/ring.hpp"
#include "p2p/slot/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"

namespace weft::p2p::message {

/// Sender to receiver: its first message waits for a ring.
struct RingWanted {
  static constexpr MessageType kType = MessageType::ring_wanted;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  MemoryRef words;  ///< its SenderWords
};

/// Receiver to sender.
struct RingGranted {
  static constexpr MessageType kType = MessageType::ring_granted;
  MessageType type = kType;
  std::uint32_t notification_id = 0;  ///< what the receiver's channel calls the cells' words
  MemoryRef ring;
  Geometry geometry;
};

/// Receiver to sender: there will be none.
struct RingRefused {
  static constexpr MessageType kType = MessageType::ring_refused;
  MessageType type = kType;
  std::uint32_t code = 0;
  FixedText<512> text;
};

}  // namespace weft::p2p::message
