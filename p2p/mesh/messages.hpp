// What ranks tell each other as ranks.
#pragma once

#include <cstdint>

#include "p2p/message.hpp"

namespace weft::p2p {

/// Who made a rank leave, or end.
struct Cause {
  std::int32_t rank = -1;         ///< -1: nobody did
  std::int32_t exit_status = -1;  ///< it called exit(), with this; -1: it failed
};

struct LeavingMessage {
  static constexpr MessageType kType = MessageType::leaving;
  MessageType type = kType;
  Cause because_of;
};

/// Until its process has ended, nothing changes: it may still write.
struct EndingMessage {
  static constexpr MessageType kType = MessageType::ending;
  MessageType type = kType;
  Cause because_of;
  std::int32_t signal = 0;  ///< that ends it; 0: it calls exit()
  std::int32_t status = 0;  ///< of exit()
};

}  // namespace weft::p2p
