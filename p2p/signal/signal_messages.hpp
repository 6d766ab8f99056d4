// Control messages about signals: attach, and operations between ranks that share no memory.
#pragma once

#include <array>
#include <cstdint>

#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"

namespace weft::p2p {

struct SignalWanted {
  static constexpr MessageType kType = MessageType::signal_wanted;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t remote_id = 0;
  FixedText<kMaxSlotName + 1> name;
  std::array<std::uint8_t, 7> padding{};
};

struct SignalGranted {
  static constexpr MessageType kType = MessageType::signal_given;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t remote_id = 0;
  std::uint64_t signal_id = 0;
  MemoryRef line;
};

/// Remote end to owner: no further access to the signal.
struct SignalLeft {
  static constexpr MessageType kType = MessageType::signal_left;
  MessageType type = kType;
  std::uint32_t reserved = 0;
  std::uint64_t signal_id = 0;
};

enum class SignalAct : std::uint32_t { add, compare_swap };

struct SignalRequest {
  static constexpr MessageType kType = MessageType::signal_act;
  MessageType type = kType;
  SignalAct act = SignalAct::add;
  std::uint64_t signal_id = 0;
  std::uint64_t remote_id = 0;  ///< 0: no reply wanted
  std::uint64_t number = 0;     ///< of this remote end's requests, from 1
  std::uint64_t operand = 0;    ///< the amount to add, or the value to store
  std::uint64_t expected = 0;
};

struct SignalReply {
  static constexpr MessageType kType = MessageType::signal_reply;
  MessageType type = kType;
  std::uint32_t closed = 0;
  std::uint64_t remote_id = 0;
  std::uint64_t number = 0;
  std::uint64_t before = 0;
};

}  // namespace weft::p2p
