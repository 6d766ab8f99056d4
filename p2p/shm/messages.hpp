// What two ranks of a host say before and besides the messages that they carry for others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "p2p/address.hpp"
#include "p2p/message.hpp"

namespace weft::p2p {

struct HelloMessage {  // hello and welcome
  static constexpr MessageType kType = MessageType::hello;
  MessageType type = kType;
  std::uint32_t version = RankAddress::kVersion;
  std::int32_t from = -1;
  std::int32_t to = -1;
  std::uint32_t barrier_before_sleep = 0;  ///< 1: who rings this rank needs no fence
  std::uint64_t control_bytes = 0;    ///< size of the control chunk whose descriptor comes along
  std::uint64_t doorbell_offset = 0;  ///< in that chunk
  std::array<std::byte, 32> mac{};    ///< over (from, to) with the job's secret
};

struct ChunkMessage {
  static constexpr MessageType kType = MessageType::chunk;
  MessageType type = kType;
  std::uint32_t chunk = 0;
  std::uint64_t bytes = 0;
};

}  // namespace weft::p2p
