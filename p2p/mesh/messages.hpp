// What ranks tell each other as ranks.
#pragma once

#include <cstdint>

#include "p2p/message.hpp"

namespace weft::p2p {

struct LeavingMessage {
  static constexpr MessageType kType = MessageType::leaving;
  MessageType type = kType;
  std::int32_t because_of = -1;  ///< the failed rank that made it leave; -1: its own decision
};

}  // namespace weft::p2p
