// Remote memory, and one tensor's way into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/tensor.hpp"

namespace weft::p2p {

/// Where something lies in a rank's arenas, in numbers that travel.
struct MemoryRef {
  constexpr MemoryRef() noexcept = default;
  constexpr MemoryRef(std::uint32_t in_chunk, std::uint64_t at, std::uint64_t size) noexcept
      : chunk(in_chunk), offset(at), bytes(size) {}

  std::uint32_t chunk = 0;
  std::uint32_t reserved = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A MemoryRef of the peer, resolved by its channel, which gives `address` its meaning.
struct RemoteMemory {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t reserved = 0;
};

/// Offset of the sequence word that follows a tensor (PutWork::with_tail), from its first byte.
constexpr std::size_t tail_offset(std::size_t bytes) noexcept {
  return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t) * sizeof(std::uint64_t);
}
/// With that word.
constexpr std::size_t bytes_with_tail(std::size_t bytes) noexcept {
  return tail_offset(bytes) + sizeof(std::uint64_t);
}

/// Whether a put or a written word wakes the peer, and when.
enum class Notify : std::uint8_t {
  optional,  ///< need not wake it: the peer polls, or asks for the word by a message
  deferred,  ///< may be piggybacked on the next message to the peer; flushed at the latest when
             ///< this rank blocks
  always
};

/// One tensor's way into a slot.
struct PutWork {
  const std::byte* source = nullptr;
  const Tensor* tensor = nullptr;  ///< owner of the source's memory; null: it lies in an arena
  /// Instead of a source: their elements, in order, with strides (for_each_run()).
  std::span<const Tensor> parts;
  std::size_t bytes = 0;
  RemoteMemory payload;
  RemoteMemory sequence_word;
  /// Alternative to both that the channel may choose: the payload goes here and the word right
  /// behind it, at tail_offset(). The owner polls both words and is not notified of this one.
  /// Address 0: not allowed.
  RemoteMemory with_tail;
  std::uint64_t sequence = 0;
  /// The owner's name for the word (Channel::expect): for words set in turn the answer itself,
  /// otherwise the answer plus the word's index.
  std::uint32_t notification_id = 0;
  bool delivered = false;  ///< poll_put() reports when the peer can see the tensor
  bool more = false;       ///< another put follows at once, and the two may go together
  int queue_pair = -1;     ///< asked for; -1: the channel chooses
  /// The stream that this put belongs to, in the caller's own numbers: a channel may learn from one
  /// put for the next of its stream.
  std::uint64_t stream = 0;
  std::uint32_t depth = 1;  ///< buffers that the stream's puts go to in turn
  /// A channel that copies may stop short of the end, so that a large put does not hold up the
  /// thread that moves waiting puts: it counts in `done`, answers `exhausted`, and is called again.
  bool by_and_by = false;

  // Answers.
  std::size_t done = 0;      ///< with `by_and_by`: of `bytes`, by this call and those before it
  std::uint64_t copied = 0;  ///< bytes that the channel had to pack first
  /// For Channel::poll_put. 0: the source is free, and the peer can see the tensor already unless
  /// `delivered` was not asked for.
  std::uint64_t posted = 0;
  bool source_is_free = true;  ///< the source may be written again
  std::uint32_t requests = 1;  ///< work requests that moved the payload
};

}  // namespace weft::p2p
