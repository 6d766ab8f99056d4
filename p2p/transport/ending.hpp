// Messages of a rank about its own end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "p2p/transport/control_message.hpp"

namespace weft::p2p {

/// The rank that made another leave, or end.
struct Cause {
  std::int32_t rank = -1;         ///< -1: none did
  std::int32_t exit_status = -1;  ///< it called exit(), with this; -1: it failed
};

/// Until its process has ended, nothing changes: it may still write.
struct EndingMessage {
  static constexpr MessageType kType = MessageType::ending;
  MessageType type = kType;
  Cause cause;
  std::int32_t signal = 0;  ///< that ends it; 0: it calls exit()
  std::int32_t status = 0;  ///< of exit()
};

/// Whether a control message tells of its sender's end: it must not stand behind tensors that are
/// under way, which may never get there.
inline bool is_close(std::span<const std::byte> message) noexcept {
  const auto ending = parse<EndingMessage>(message);
  return ending && ending->type == EndingMessage::kType;
}

}  // namespace weft::p2p
