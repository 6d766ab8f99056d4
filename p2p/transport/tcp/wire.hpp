// Records that travel over a connection for data: a fixed head, in most a payload behind it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace weft::p2p::tcp {

enum class Kind : std::uint8_t {
  put = 1,     ///< payload into memory of the receiver, then a word is set
  piece,       ///< a part of a striped put's payload, by any rail
  word,        ///< sets a word in the receiver's control memory
  bell,        ///< something that the receiver reads here has changed
  message,     ///< a control message
  chunk,       ///< the receiver may name a chunk of the sender's from now on
  chunk_gone,  ///< and not any more
  get,         ///< asks for memory of the receiver: the payload is GetPieces
  reply,       ///< what was asked for, and a reply_end
  reply_end,   ///< `flags` 1: what came was whole
  ack_wanted,  ///< asks for an ack once everything before it has been dealt with
  ack,
  part,       ///< the beginning of a put's payload, or what follows that; no word is set
  striped,    ///< a put whose payload comes in pieces; its word is set once all of them are there
  taken,      ///< how many records of this connection the sender of this one has dealt with
  rail_down,  ///< a rail has failed, and nothing of it is taken any more
  rail_up,    ///< the first record of a rail that was connected anew; what the connection before
              ///< brought
  last = rail_up
};

/// In `flags` of a put or a part: its sender waits until it is taken. Of other kinds, only where
/// that is said.
constexpr std::uint8_t kTell = 2;

/// Whether it need not wait for the tensors that were to go out before it.
constexpr bool is_urgent(Kind kind) noexcept {
  return kind == Kind::word || kind == Kind::bell || kind == Kind::get || kind == Kind::ack ||
         kind == Kind::taken || kind == Kind::rail_down || kind == Kind::rail_up;
}

/// Whether it goes in the order of messages.
constexpr bool is_of_messages(Kind kind) noexcept {
  return kind == Kind::message || kind == Kind::chunk || kind == Kind::chunk_gone;
}

/// In front of everything, as it lies in memory. The meaning of a field depends on the kind; one
/// that has no meaning is 0.
struct Head {
  static constexpr std::uint16_t kMagic = 0x7774;

  std::uint16_t magic = kMagic;
  Kind kind = Kind::put;
  std::uint8_t flags = 0;      ///< kTell; piece: its stripe's number, the low bits
  std::uint32_t index = 0;     ///< put: of the word to set; get, reply: which get; rail_*: rail
  std::uint64_t bytes = 0;     ///< of the payload
  std::uint64_t address = 0;   ///< put, piece, word: in the chunk; chunk: size; striped: pieces
  std::uint32_t key = 0;       ///< the chunk; striped: its number; rail_*: which of its connections
  std::uint32_t head_sum = 0;  ///< checksum of the head without it; 0: none are used
  std::uint64_t sequence = 0;  ///< put, piece: for the word; word: the value; ack, taken, rail_*
  std::uint64_t checksum = 0;  ///< of the payload, and of the head without both sums; 0: none
};
static_assert(std::has_unique_object_representations_v<Head> && sizeof(Head) == 48);
static_assert(std::endian::native == std::endian::little, "heads travel as they lie in memory");

/// One stretch of memory that a get asks for.
struct GetPiece {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t key = 0;
  std::uint32_t reserved = 0;
};
static_assert(std::has_unique_object_representations_v<GetPiece> && sizeof(GetPiece) == 24);

constexpr std::size_t kMostPieces = 64;     ///< of one request; a longer get is several
constexpr std::size_t kMostMessage = 2048;  ///< bytes of a control message
constexpr std::uint64_t kMostPayload = std::uint64_t{1} << 48;

/// A head as it came, or why it can't be one. Believes nothing: any bytes may be given.
struct ParsedHead {
  Head head;
  const char* trouble = nullptr;
};
ParsedHead parse_head(std::span<const std::byte, sizeof(Head)> bytes) noexcept;

}  // namespace weft::p2p::tcp
