// The area by which ranks of one host carry out collectives: part of each rank's control arena.
// Only its owner writes an area; the other members read it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/collective/signature.hpp"

namespace weft::detail {

/// Locations of a rank's tensors, for operations whose tensors are too large for the call's entry.
struct TensorPlaces {
  std::uint32_t in_chunk = 0;
  std::uint32_t out_chunk = 0;
  std::uint32_t partial_chunk = 0;  ///< this rank's partial result of its NUMA node
  std::uint32_t reserved = 0;
  std::uint64_t in_offset = 0;
  std::uint64_t out_offset = 0;
  std::uint64_t partial_offset = 0;
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
};

/// Locations of a rank's tensors on a GPU, for a call that the GPUs may carry out.
struct DevicePlaces {
  std::uint32_t in_chunk = 0;
  std::uint32_t out_chunk = 0;
  std::uint32_t pages_chunk = 0;  ///< pages in which others prove that they reach this GPU
  std::uint32_t words_chunk = 0;  ///< words by which streams meet, if they are to
  std::uint64_t in_offset = 0;
  std::uint64_t out_offset = 0;
  std::uint64_t pages_offset = 0;
  std::uint64_t words_offset = 0;
  std::array<char, 16> gpu{};  ///< the GPU's UUID
};
static_assert(sizeof(DevicePlaces) == 64);

/// Said by a rank in a call that the GPUs may carry out, in this order.
enum class DeviceWord : std::uint8_t {
  none,
  wrote,
  yes,
  later,  ///< this call goes by host memory, a later one perhaps not
  no      ///< these GPUs do not serve
};

/// A view of one rank's area. Calls are numbered from 1. Call n uses entry n % kCalls. An entry
/// starts with a word, "number and mark", which is written last; behind the word, from the same
/// cache line on, lie either the tensor itself or the locations of the tensors.
class GroupArea {
 public:
  static constexpr std::uint64_t kCalls = 8;
  static constexpr std::size_t kInlineBytes = 8192;  ///< largest tensor inside an entry
  static constexpr std::size_t kOffsetsAt = 64;  ///< all_to_all's offsets, from an entry's start

  GroupArea() = default;
  GroupArea(std::byte* memory, std::size_t entry_bytes) noexcept
      : memory_(memory), entry_bytes_(entry_bytes) {}

  /// Bytes of an entry, with room for the offsets of an all_to_all among `size` ranks.
  static std::size_t entry_bytes(int size) noexcept {
    const std::size_t parts = kOffsetsAt + (static_cast<std::size_t>(size) + 1) * 8;
    const std::size_t payload = sizeof(std::uint64_t) + kInlineBytes;
    return (std::max(parts, payload) + 63) / 64 * 64;
  }
  static std::size_t bytes(int size) noexcept {
    return kHead + kCalls * (entry_bytes(size) + kDevice);
  }

  /// This rank has completed every call up to this number: it touches no other rank's memory for
  /// them.
  std::atomic<std::uint64_t>& done() const noexcept { return word(0); }
  /// Step that this rank has completed in a call that goes in steps (step_word()).
  std::atomic<std::uint64_t>& passed() const noexcept { return word(8); }
  /// This rank's last word in a call on GPUs (device_word()).
  std::atomic<std::uint64_t>& said() const noexcept { return word(16); }
  /// This rank has given up every call up to this number, and touches no other rank's memory for
  /// them.
  std::atomic<std::uint64_t>& stopped() const noexcept { return word(64); }
  /// NUMA node of this rank; -1: none. Set once, before other ranks read it.
  std::int64_t& numa_node() const noexcept {
    return *reinterpret_cast<std::int64_t*>(memory_ + 80);
  }
  /// Largest tensor, in bytes, that this rank would put into an entry. Set once, before other ranks
  /// read it. The value of the group's first rank counts.
  std::uint64_t& word_bytes() const noexcept {
    return *reinterpret_cast<std::uint64_t*>(memory_ + 72);
  }
  /// Signature of a call, for messages: read only after a mismatch.
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
  std::byte* device_places(std::uint64_t call) const noexcept {
    return memory_ + kHead + kCalls * entry_bytes_ + call % kCalls * kDevice;
  }
  /// The nonce of the pages that this rank has written to the others' GPUs.
  std::atomic<std::uint64_t>& nonce(std::uint64_t call) const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(device_places(call) +
                                                          sizeof(DevicePlaces));
  }
  std::int64_t* offsets(std::uint64_t call) const noexcept {
    return reinterpret_cast<std::int64_t*>(entry(call) + kOffsetsAt);
  }

  /// The mark of a call that the rank has given up. No call has this mark.
  static constexpr std::uint32_t kGivenUp = 0;

  /// The mark of a call that this rank offers to carry out on its GPU; it has not shown tensors in
  /// host memory.
  static std::uint32_t mark_on_device(std::uint32_t mark) noexcept { return mark ^ 2U; }
  /// The mark of a call by host memory that is offered anew when it is started again.
  static std::uint32_t mark_for_now(std::uint32_t mark) noexcept { return mark ^ 4U; }

  /// The value of said(). It only rises.
  static std::uint64_t device_word(std::uint64_t call, DeviceWord what) noexcept {
    return call << 3 | static_cast<std::uint64_t>(what);
  }
  /// The word on `call` in `word`. A rank that speaks of a later call has ended this one, which
  /// then went by the GPUs.
  static DeviceWord said_of(std::uint64_t word, std::uint64_t call) noexcept {
    if (word >> 3 > call) return DeviceWord::yes;
    return word >> 3 < call ? DeviceWord::none : static_cast<DeviceWord>(word & 7);
  }

  static std::uint64_t announce(std::uint64_t call, std::uint32_t fingerprint) noexcept {
    return call << 32 | fingerprint;
  }
  /// The value of passed() once `step` steps (1 to 3) of a call are complete.
  static std::uint64_t step_word(std::uint64_t call, int step) noexcept {
    return call << 2 | static_cast<std::uint64_t>(step);
  }
  /// True if `word` belongs to `call`; its mark may differ.
  static bool is_of(std::uint64_t word, std::uint64_t call) noexcept {
    return word >> 32 == (call & 0xffffffff);
  }

 private:
  static constexpr std::size_t kDevice = 2 * sizeof(DevicePlaces);
  static constexpr std::size_t kHead = 128 + kCalls * 32;
  static_assert(kHead % 64 == 0 && kDevice == 128 && sizeof(Signature) <= 32);
  static_assert(sizeof(std::uint64_t) + sizeof(TensorPlaces) <= kOffsetsAt);

  std::atomic<std::uint64_t>& word(std::size_t at) const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory_ + at);
  }

  std::byte* memory_ = nullptr;
  std::size_t entry_bytes_ = 0;
};

}  // namespace weft::detail
