// The words by which ranks of one host carry out collectives: a stretch of each rank's control
// arena, which it alone writes and the others read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/collective/signature.hpp"

namespace weft::detail {

/// Where a rank's tensors lie, for operations whose tensors are too large for the call's lines.
struct TensorPlaces {
  std::uint32_t in_chunk = 0;
  std::uint32_t out_chunk = 0;
  std::uint32_t partial_chunk = 0;  ///< what it has combined for its place in all NUMA nodes
  std::uint32_t reserved = 0;
  std::uint64_t in_offset = 0;
  std::uint64_t out_offset = 0;
  std::uint64_t partial_offset = 0;
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
};

/// A view of one rank's area. Calls are numbered from 1. Each has one of kCalls entries, used round
/// and round: a word, written last, that says "number and fingerprint", and behind it, from the
/// same line on, either the tensor or where it lies.
class GroupArea {
 public:
  static constexpr std::uint64_t kCalls = 8;
  static constexpr std::size_t kInlineBytes =
      8192;                                      ///< the most of a tensor that goes with the word
  static constexpr std::size_t kOffsetsAt = 64;  ///< from an entry's start: all_to_all's parts

  GroupArea() = default;
  GroupArea(std::byte* memory, std::size_t entry_bytes) noexcept
      : memory_(memory), entry_bytes_(entry_bytes) {}

  /// With room for the parts of an all_to_all among `size` ranks.
  static std::size_t entry_bytes(int size) noexcept {
    const std::size_t parts = kOffsetsAt + (static_cast<std::size_t>(size) + 1) * 8;
    const std::size_t payload = sizeof(std::uint64_t) + kInlineBytes;
    return (std::max(parts, payload) + 63) / 64 * 64;
  }
  static std::size_t bytes(int size) noexcept { return kHead + kCalls * entry_bytes(size); }

  /// Every call up to this one is done here: this rank reads and writes nobody's memory for it.
  std::atomic<std::uint64_t>& done() const noexcept { return word(0); }
  /// How far it is with a call that goes in steps, which are meetings of some ranks.
  std::atomic<std::uint64_t>& passed() const noexcept { return word(8); }
  /// This rank has given up every call up to this one, and touches nobody's memory for it.
  std::atomic<std::uint64_t>& stopped() const noexcept { return word(64); }
  /// Set once, before others look: the NUMA node of this rank; -1: none.
  std::int64_t& numa_node() const noexcept {
    return *reinterpret_cast<std::int64_t*>(memory_ + 80);
  }
  /// Set once, before others look: the size up to which this rank would have tensors go with the
  /// word. The group's first rank decides.
  std::uint64_t& word_bytes() const noexcept {
    return *reinterpret_cast<std::uint64_t*>(memory_ + 72);
  }
  /// What was called, for people: only read when something is wrong.
  Signature& signature(std::uint64_t call) const noexcept {
    return *reinterpret_cast<Signature*>(memory_ + 128 + call % kCalls * 32);
  }

  std::byte* entry(std::uint64_t call) const noexcept {
    return memory_ + kHead + call % kCalls * entry_bytes_;
  }
  std::atomic<std::uint64_t>& call_word(std::uint64_t call) const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(entry(call));
  }
  std::byte* payload(std::uint64_t call) const noexcept {
    return entry(call) + sizeof(std::uint64_t);
  }
  std::int64_t* offsets(std::uint64_t call) const noexcept {
    return reinterpret_cast<std::int64_t*>(entry(call) + kOffsetsAt);
  }

  /// The fingerprint of a call that the rank has given up; no call has it.
  static constexpr std::uint32_t kGivenUp = 0;

  static std::uint64_t announce(std::uint64_t call, std::uint32_t fingerprint) noexcept {
    return call << 32 | fingerprint;
  }
  /// What passed() is once a call has passed so many steps, 1 to 3.
  static std::uint64_t step_word(std::uint64_t call, int step) noexcept {
    return call << 2 | static_cast<std::uint64_t>(step);
  }
  /// Whether a word is of that call; its fingerprint may be another.
  static bool is_of(std::uint64_t word, std::uint64_t call) noexcept {
    return word >> 32 == (call & 0xffffffff);
  }

 private:
  static constexpr std::size_t kHead = 128 + kCalls * 32;
  static_assert(kHead % 64 == 0 && sizeof(Signature) <= 32);
  static_assert(sizeof(std::uint64_t) + sizeof(TensorPlaces) <= kOffsetsAt);

  std::atomic<std::uint64_t>& word(std::size_t at) const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory_ + at);
  }

  std::byte* memory_ = nullptr;
  std::size_t entry_bytes_ = 0;
};

}  // namespace weft::detail
