// What ranks tell each other as ranks.
#pragma once

#include "p2p/transport/ending.hpp"

namespace weft::p2p {

struct LeavingMessage {
  static constexpr MessageType kType = MessageType::leaving;
  MessageType type = kType;
  Cause cause;
};

}  // namespace weft::p2p
