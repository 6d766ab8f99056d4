// The cache line on which a slot's buffer announces its tensor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft::p2p {

/// One per buffer of a slot, in the owner's control arena. `sequence` is the number of the tensor
/// that lies in the buffer, counting the slot's tensors from 1: a rolling number, never a flag to
/// be cleared. A tensor that fits travels in the line itself: one line crosses, not two. A
/// published slot has one line; there `sequence` is the newest version.
struct alignas(64) SlotLine {
  static constexpr std::size_t kInlineBytes = 56;

  std::atomic<std::uint64_t> sequence;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(SlotLine) == 64);

/// The number of the latest tensor that a GPU copied into the slot's own buffer, for a slot on a
/// GPU. Tensors without such a mark lie in the staging buffer. Read after `sequence`.
inline std::uint64_t gpu_mark(const SlotLine& line) noexcept {
  std::uint64_t mark = 0;
  std::memcpy(&mark, line.payload, sizeof mark);
  return mark;
}

}  // namespace weft::p2p
