// The ring through which one rank's messages reach another: its memory, and what lies in it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "p2p/transport/fabric.hpp"

namespace weft::p2p::message {

enum class Kind : std::uint8_t {
  in_cell = 1,  ///< the payload follows the head
  in_long,      ///< it lies in the next long buffer
  offered       ///< an Offer follows the head: the payload is read from the sender
};

/// What precedes every payload.
struct Head {
  static constexpr unsigned kKindShift = 56;

  std::uint64_t sequence = 0;  ///< again: it tells a head of this round from an older one
  std::uint64_t tag = 0;
  std::uint64_t size = 0;  ///< bytes of the payload; its Kind in the top byte

  static constexpr std::uint64_t pack(Kind kind, std::uint64_t bytes) noexcept {
    return static_cast<std::uint64_t>(kind) << kKindShift | bytes;
  }
  constexpr Kind kind() const noexcept { return static_cast<Kind>(size >> kKindShift); }
  constexpr std::uint64_t bytes() const noexcept {
    return size & ((std::uint64_t{1} << kKindShift) - 1);
  }
};
static_assert(sizeof(Head) == 24);

/// One message's place: two lines, of which a message of up to 32 bytes touches the first alone.
/// The n-th message of a ring sets the word of cell (n - 1) mod cells to n, behind its payload. The
/// head lies here or, if the payload has a long buffer, ahead of it there.
struct alignas(64) Cell {
  static constexpr std::size_t kPayload = 96;

  std::atomic<std::uint64_t> word;
  Head head;
  std::byte payload[kPayload];
};
static_assert(sizeof(Cell) == 128);

/// Where an offered payload lies, and which of the sender's words to set once it was read.
struct Offer {
  std::uint64_t offset = 0;
  std::uint32_t chunk = 0;
  std::uint32_t ack = 0;
};

/// How large a ring is. The receiver decides.
struct Geometry {
  static constexpr std::size_t kLongPayload = 4096;

  std::uint32_t cells = 0;
  std::uint32_t longs = 0;

  /// So that a rank with rings to all others stays within some hundred MiB.
  static constexpr Geometry for_job(int ranks) noexcept {
    if (ranks <= 64) return {128, 16};
    if (ranks <= 1024) return {64, 8};
    return {32, 4};
  }
  static constexpr std::size_t long_stride() noexcept { return sizeof(Head) + kLongPayload + 40; }
  constexpr std::size_t cell_bytes() const noexcept { return cells * sizeof(Cell); }
  constexpr std::size_t bytes() const noexcept { return cell_bytes() + longs * long_stride(); }
  /// From a peer: what travelled is not trusted.
  constexpr bool makes_sense() const noexcept {
    return cells >= 2 && cells <= 4096 && longs >= 1 && longs <= cells;
  }
};
static_assert(Geometry::long_stride() % 64 == 0);

/// Where a head was found.
enum class Place : std::uint8_t { cell, long_buffer };

/// What is wrong with the head of the ring's message `sequence`, which its sender may have written
/// anyhow; null if nothing is. Then a payload that lies in the ring has room in its place.
constexpr const char* fault_of(const Head& head, std::uint64_t sequence, Place place) noexcept {
  const bool in_long = place == Place::long_buffer;
  if (head.sequence != sequence || (in_long && head.kind() != Kind::in_long))
    return "a message without a head";
  if (!in_long && head.kind() == Kind::offered) return nullptr;
  if (!in_long && head.kind() != Kind::in_cell) return "a message of no kind";
  const std::size_t room = in_long ? Geometry::kLongPayload : Cell::kPayload;
  return head.bytes() > room ? "a message larger than its place" : nullptr;
}

/// The sender's own words: its credit, and one for each of its offers under way.
struct alignas(64) SenderWords {
  static constexpr std::uint32_t kOffers = 128;

  alignas(64) std::atomic<std::uint64_t> credit;  ///< all messages up to this one were let go
  alignas(64) std::atomic<std::uint64_t> acks[kOffers];  ///< the last offer that was read
};

/// The same of an offer.
constexpr const char* fault_of(const Offer& offer) noexcept {
  return offer.ack >= SenderWords::kOffers ? "an offer without a word" : nullptr;
}

inline RemoteMemory at(RemoteMemory memory, std::uint64_t offset) noexcept {
  memory.address += offset;
  return memory;
}

}  // namespace weft::p2p::message
