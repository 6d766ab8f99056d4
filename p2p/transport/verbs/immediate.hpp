// The 32 bits that come with a put: which word to set, and to what.
#pragma once

#include <cstdint>

#include "p2p/transport/notification_table.hpp"

namespace weft::p2p::verbs {

/// Index of the word, whether the put came in pieces by several queue pairs, and as much of the
/// sequence number as is needed to tell it from its neighbours. Two values are reserved, as in the
/// verbs note: `kFence` says that everything before it on its queue pair is there, `kAck` that a
/// word which the peer wrote itself may have changed.
struct Immediate {
  static constexpr unsigned kSequenceBits = ShortSequence::kBits;
  static constexpr unsigned kIndexBits = 19;
  static constexpr std::uint32_t kSequenceMask = ShortSequence::kMask;
  static constexpr std::uint32_t kMaxIndex = (1U << kIndexBits) - 2;
  static constexpr std::uint32_t kFence = 0xffffffffU;
  static constexpr std::uint32_t kAck = 0xfffffffeU;

  std::uint32_t index = 0;
  bool in_pieces = false;
  std::uint32_t sequence = 0;  ///< the low bits

  std::uint32_t word() const noexcept {
    return index << (kSequenceBits + 1) | (in_pieces ? 1U : 0U) << kSequenceBits |
           (sequence & kSequenceMask);
  }
  static Immediate of(std::uint32_t word) noexcept {
    return {word >> (kSequenceBits + 1), (word >> kSequenceBits & 1U) != 0, word & kSequenceMask};
  }
  ShortSequence low_bits() const noexcept { return {sequence}; }
};
static_assert(1 + Immediate::kIndexBits + Immediate::kSequenceBits == 32);

}  // namespace weft::p2p::verbs
