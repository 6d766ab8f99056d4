// Messages of the shm fabric itself, between two ranks of a host.
#pragma once

#include <cstdint>

#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/cuda/exported_chunk.hpp"

namespace weft::p2p {

/// Value of the word by which ranks find out whether they reach into each other's process.
inline constexpr std::uint64_t kProbe = 0x776566742d707262;

/// No message describes memory before both ends have proved which ranks they are, as ranks of
/// different hosts do (auth/handshake.hpp): handshake, answer, then connect with the proof.
struct HandshakeMessage {
  static constexpr MessageType kType = MessageType::handshake;
  MessageType type = kType;
  Handshake handshake;
};

struct AnswerMessage {
  static constexpr MessageType kType = MessageType::answer;
  MessageType type = kType;
  Answer answer;
};

struct ConnectMessage {  // connect and accept
  static constexpr MessageType kType = MessageType::connect;
  MessageType type = kType;
  std::uint32_t barrier_before_sleep = 0;  ///< 1: who rings this rank needs no fence
  std::uint64_t control_bytes = 0;    ///< size of the control chunk whose descriptor comes along
  std::uint64_t doorbell_offset = 0;  ///< in that chunk
  std::uint64_t probe = 0;            ///< address of a word in the sender's process: kProbe
  std::uint32_t reaches = 0;          ///< accept: whether the acceptor has read the connector's
  Proof proof{};                      ///< connect: the connector's
  std::uint32_t reserved = 0;
};

struct ReachesMessage {  // the connector's, after accept
  static constexpr MessageType kType = MessageType::reaches;
  MessageType type = kType;
  std::uint32_t reaches = 0;
};

struct StatsMessage {  // with the stats segment's descriptor
  static constexpr MessageType kType = MessageType::stats;
  MessageType type = kType;
  std::uint32_t reserved = 0;
};

struct AdoptedMessage {
  static constexpr MessageType kType = MessageType::adopted;
  MessageType type = kType;
  std::uint32_t chunk = 0;
  std::uint64_t address = 0;  ///< in the sender's process
  std::uint64_t bytes = 0;
  std::uint64_t alive_offset = 0;  ///< of the region's word
  std::uint32_t alive_chunk = 0;   ///< a control chunk, shared before
  std::uint32_t reserved = 0;
};

struct ForgetMessage {
  static constexpr MessageType kType = MessageType::forget;
  MessageType type = kType;
  std::uint32_t chunk = 0;
};

struct ChunkAgainMessage {
  static constexpr MessageType kType = MessageType::chunk_again;
  MessageType type = kType;
  std::uint32_t chunk = 0;
};

struct DeviceChunkMessage {
  static constexpr MessageType kType = MessageType::device_chunk;
  MessageType type = kType;
  std::uint32_t chunk = 0;
  cuda::ExportedChunk exported{};
};

struct ChunkMessage {
  static constexpr MessageType kType = MessageType::chunk;
  MessageType type = kType;
  std::uint32_t chunk = 0;
  std::uint64_t bytes = 0;
};

}  // namespace weft::p2p
