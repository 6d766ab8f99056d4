// The memory layout of the ring through which one rank's messages reach another.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/tensor_checks.hpp"
#include "p2p/transport/fabric.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::message {

enum class Kind : std::uint8_t {
  in_cell = 1,  ///< the payload follows the head
  in_long,      ///< the payload lies in the next long buffer, behind its head
  offered  ///< an Offer follows the head; the receiver reads the payload from the sender's memory
};

/// Precedes every payload.
struct Head {
  static constexpr unsigned kKindShift = 56;
  static constexpr unsigned kDTypeShift = 52;

  std::uint64_t sequence = 0;  ///< as the cell's word: tells this head from an older one
  std::uint64_t tag = 0;
  /// Bytes of the payload, which no memory has 2^52 of; above them 4 bits of DType and 8 of Kind.
  std::uint64_t size = 0;

  static constexpr std::uint64_t pack(Kind kind, DType dtype, std::uint64_t bytes) noexcept {
    return static_cast<std::uint64_t>(kind) << kKindShift |
           (static_cast<std::uint64_t>(dtype) & 0xfU) << kDTypeShift | bytes;
  }
  constexpr Kind kind() const noexcept { return static_cast<Kind>(size >> kKindShift); }
  constexpr DType dtype() const noexcept { return static_cast<DType>(size >> kDTypeShift & 0xf); }
  constexpr std::uint64_t bytes() const noexcept {
    return size & ((std::uint64_t{1} << kDTypeShift) - 1);
  }
};
static_assert(sizeof(Head) == 24);

/// A message's place in the ring: two cache lines, of which a message of up to 32 bytes touches
/// only the first. Message n of a ring sets `word` of cell (n - 1) mod cells to n, after its
/// payload. The head lies here, or in the long buffer if the payload has one.
struct alignas(64) Cell {
  static constexpr std::size_t kPayload = 96;

  std::atomic<std::uint64_t> word;
  Head head;
  std::byte payload[kPayload];
};
static_assert(sizeof(Cell) == 128);

/// Location of an offered payload, and the index of the sender's word that acknowledges it.
struct Offer {
  std::uint64_t offset = 0;
  std::uint32_t chunk = 0;
  std::uint32_t ack = 0;
};

/// Size of a ring; chosen by the receiver.
struct Geometry {
  static constexpr std::size_t kLongPayload = 4096;

  std::uint32_t cells = 0;
  std::uint32_t longs = 0;

  /// Keeps a rank with rings to all other ranks within a few hundred MiB.
  static constexpr Geometry for_job(int ranks) noexcept {
    if (ranks <= 64) return {128, 16};
    if (ranks <= 1024) return {64, 8};
    return {32, 4};
  }
  static constexpr std::size_t long_stride() noexcept { return sizeof(Head) + kLongPayload + 40; }
  constexpr std::size_t cell_bytes() const noexcept { return cells * sizeof(Cell); }
  constexpr std::size_t bytes() const noexcept { return cell_bytes() + longs * long_stride(); }
  /// Checks values received from a peer.
  constexpr bool makes_sense() const noexcept {
    return cells >= 2 && cells <= 4096 && longs >= 1 && longs <= cells;
  }
};
static_assert(Geometry::long_stride() % 64 == 0);

/// The place where a head was found.
enum class Place : std::uint8_t { cell, long_buffer };

/// Describes what is wrong with `head`, found as that of message `sequence` and written by an
/// untrusted sender; null if nothing is. A payload that lies in the ring is then known to fit its
/// place.
constexpr const char* fault_of(const Head& head, std::uint64_t sequence, Place place) noexcept {
  const bool in_long = place == Place::long_buffer;
  if (head.sequence != sequence || (in_long && head.kind() != Kind::in_long))
    return "a message without a head";
  if (!is_dtype(head.dtype())) return "a message of no element type";
  if (!in_long && head.kind() == Kind::offered) return nullptr;
  if (!in_long && head.kind() != Kind::in_cell) return "a message of no kind";
  const std::size_t room = in_long ? Geometry::kLongPayload : Cell::kPayload;
  return head.bytes() > room ? "a message larger than its place" : nullptr;
}

/// The sender's words, written by the receiver: its credit, and one acknowledgement per offer under
/// way.
struct alignas(64) SenderWords {
  static constexpr std::uint32_t kOffers = 128;

  alignas(64) std::atomic<std::uint64_t> credit;  ///< all messages up to this one are released
  alignas(64) std::atomic<std::uint64_t> acks[kOffers];  ///< last offer that was read
};

/// Describes what is wrong with `offer`; null if nothing is.
constexpr const char* fault_of(const Offer& offer) noexcept {
  return offer.ack >= SenderWords::kOffers ? "an offer without a word" : nullptr;
}

inline RemoteMemory at(RemoteMemory memory, std::uint64_t offset) noexcept {
  memory.address += offset;
  return memory;
}

}  // namespace weft::p2p::message
