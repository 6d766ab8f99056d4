#include "p2p/transport/tcp/wire.hpp"

namespace weft::p2p::tcp {
namespace {

/// Why a head of a known kind can't be right; null if it may be.
const char* trouble_with(const Head& head) noexcept {
  if (head.bytes > kMostPayload) return "its payload is longer than any";
  switch (head.kind) {
    case Kind::put:
    case Kind::piece:
    case Kind::part:
    case Kind::reply:
      return nullptr;
    case Kind::word:
      if (head.address % sizeof(std::uint64_t) != 0) return "its word is not aligned";
      break;
    case Kind::message:
      return head.bytes >= sizeof(std::uint32_t) && head.bytes <= kMostMessage
                 ? nullptr
                 : "its message has no message's length";
    case Kind::get:
      return head.bytes % sizeof(GetPiece) == 0 && head.bytes > 0 &&
                     head.bytes <= kMostPieces * sizeof(GetPiece)
                 ? nullptr
                 : "it asks for no list of pieces";
    case Kind::bell:
    case Kind::chunk:
    case Kind::chunk_gone:
    case Kind::reply_end:
    case Kind::ack_wanted:
    case Kind::ack:
    case Kind::striped:
    case Kind::taken:
    case Kind::rail_down:
    case Kind::rail_up:
      break;
  }
  return head.bytes == 0 ? nullptr : "it has a payload where none belongs";
}

}  // namespace

ParsedHead parse_head(std::span<const std::byte, sizeof(Head)> bytes) noexcept {
  ParsedHead parsed;
  // The kind is looked at as a number first: an enumerator that does not exist is none.
  std::memcpy(&parsed.head, bytes.data(), sizeof parsed.head);
  const auto kind = std::to_integer<std::uint8_t>(bytes[offsetof(Head, kind)]);
  if (parsed.head.magic != Head::kMagic)
    parsed.trouble = "it does not begin as one";
  else if (kind < static_cast<std::uint8_t>(Kind::put) ||
           kind > static_cast<std::uint8_t>(Kind::last))
    parsed.trouble = "it is of no known kind";
  else
    parsed.trouble = trouble_with(parsed.head);
  return parsed;
}

}  // namespace weft::p2p::tcp
