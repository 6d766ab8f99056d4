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

/// Until its process has ended, nothing changes: it may still write.
struct EndingMessage {
  static constexpr MessageType kType = MessageType::ending;
  MessageType type = kType;
  std::int32_t because_of = -1;  ///< as above
  std::int32_t signal = 0;       ///< that ends it; 0: it calls exit()
  std::int32_t status = 0;       ///< of exit()
};

}  // namespace weft::p2p
