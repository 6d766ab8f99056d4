// The 32 bits that come with a put: which word to set, and to what.
#pragma once

#include <cstdint>

namespace weft::p2p::verbs {

/// Index of the word, whether the put came in pieces by several queue pairs, and as much of the
/// sequence number as is needed to tell it from its neighbours. Two values are reserved, as in the
/// verbs note: `kFence` says that everything before it on its queue pair is there, `kAck` that a
/// word which the peer wrote itself may have changed.
struct Immediate {
  static constexpr unsigned kSequenceBits = 12;
  static constexpr unsigned kIndexBits = 19;
  static constexpr std::uint32_t kSequenceMask = (1U << kSequenceBits) - 1;
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
  /// The number with these low bits that is the next above `known`.
  std::uint64_t above(std::uint64_t known) const noexcept {
    return known + 1 + ((sequence - known - 1) & kSequenceMask);
  }
  /// The number with these low bits that is nearest to `known`.
  std::uint64_t near(std::uint64_t known) const noexcept {
    const std::uint64_t ahead = (sequence - known) & kSequenceMask;
    return ahead <= kSequenceMask / 2 ? known + ahead : known + ahead - (kSequenceMask + 1);
  }
};
static_assert(1 + Immediate::kIndexBits + Immediate::kSequenceBits == 32);

}  // namespace weft::p2p::verbs
