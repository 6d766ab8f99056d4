// A kind and a peer packed into one word, for records and waits.
#pragma once

#include <cstdint>

namespace weft::stats {

inline constexpr std::uint64_t kNoPeer = 0xffffff;

constexpr std::uint64_t pack(std::uint8_t kind, int peer) noexcept {
  const std::uint64_t who = peer < 0 ? kNoPeer : static_cast<std::uint64_t>(peer) & kNoPeer;
  return kind | who << 8U;
}
constexpr std::uint8_t kind_in(std::uint64_t word) noexcept {
  return static_cast<std::uint8_t>(word & 0xff);
}
/// The peer in `word`; -1: none.
constexpr int peer_in(std::uint64_t word) noexcept {
  const std::uint64_t peer = word >> 8U & kNoPeer;
  return peer == kNoPeer ? -1 : static_cast<int>(peer);
}

}  // namespace weft::stats
