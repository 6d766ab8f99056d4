// Control messages about a rank's membership in the job.
#pragma once

#include "p2p/transport/ending.hpp"

namespace weft::p2p {

struct LeavingMessage {
  static constexpr MessageType kType = MessageType::leaving;
  MessageType type = kType;
  Cause cause;
};

}  // namespace weft::p2p
