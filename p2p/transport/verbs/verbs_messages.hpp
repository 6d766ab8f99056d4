// Messages of two ranks about their queue pairs: by the connector until those work, then by them.
#pragma once

#include <array>
#include <cstdint>

#include "p2p/transport/control_message.hpp"
#include "p2p/transport/notification_table.hpp"
#include "p2p/transport/verbs/cm/credentials.hpp"
#include "p2p/transport/verbs/queue_pair.hpp"
#include "p2p/transport/verbs/remote_keys.hpp"

namespace weft::p2p::verbs {

/// By the connector, from both ends, once they have met.
struct QueuePairsMessage {
  static constexpr std::uint32_t kType = 1;
  std::uint32_t type = kType;
  std::uint32_t count = 0;
  std::array<QueuePairAddress, NotificationTable::kMaxQueuePairs> pairs{};
  Token token{};  ///< what calls for them must bear, if the connection manager connects them
};

/// By the connector: the sender's queue pairs are ready to receive and to send.
struct ReadyMessage {
  static constexpr std::uint32_t kType = 2;
  std::uint32_t type = kType;
  std::uint32_t reserved = 0;
};

/// By the connector, the last one: the sender has given the path up.
struct GaveUpMessage {
  static constexpr std::uint32_t kType = 3;
  std::uint32_t type = kType;
  std::array<char, 508> why{};  ///< in words
};

/// A chunk of the sender's memory, before the first message that refers to it.
struct RegisteredMessage {
  static constexpr MessageType kType = MessageType::registered;
  MessageType type = kType;
  std::uint32_t chunk = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t remote_key = 0;
  /// Whether `far_keys` count: it is known by the links besides the first, too.
  std::uint32_t has_far_keys = 0;
  RemoteKeys::Keys far_keys{};
  std::uint32_t reserved = 0;
};

/// Adopted memory was given back.
struct GivenBackMessage {
  static constexpr MessageType kType = MessageType::given_back;
  MessageType type = kType;
  std::uint32_t chunk = 0;
};

}  // namespace weft::p2p::verbs
