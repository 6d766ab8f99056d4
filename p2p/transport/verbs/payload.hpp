// The memory that one put moves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {

/// A put's payload as stretches of registered memory.
struct VerbsChannel::Payload {
  static constexpr std::size_t kMost = LongPut::kMostPieces;
  /// Behind it, in its last request: what fills up to the word, and the word.
  static constexpr std::uint32_t kTailPieces = 2;

  std::array<MemoryPiece, kMost> pieces;  ///< written as far as there are any
  std::size_t count = 0;
  std::size_t bytes = 0;
  bool on_gpu = false;  ///< some of it: no processor may read it
  KeptPuts::Put kept;
  std::size_t link = 0;  ///< whose keys the pieces have
  bool is_one() const noexcept { return count <= 1; }
  std::span<const MemoryPiece> all() const noexcept { return {pieces.data(), count}; }

  void add(const std::byte* data, std::size_t size, std::uint32_t key,
           std::uint32_t adopted = 0) noexcept {
    if (size == 0) return;
    pieces[count++] = {data, size, key, adopted};
    bytes += size;
  }
  /// A part of it; requires that it is one.
  MemoryPiece part(std::size_t first, std::size_t size) const noexcept {
    return {pieces[0].data + first, size, pieces[0].key, pieces[0].adopted};
  }
};

}  // namespace weft::p2p::verbs
