#include "p2p/memory/heap.hpp"

#include <iterator>
#include <limits>

namespace weft::p2p {

Heap::Heap(std::size_t bytes) { insert_free(0, bytes / kGranule * kGranule); }

std::size_t Heap::rounded(std::size_t bytes) noexcept {
  if (bytes == 0) return kGranule;
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / kGranule * kGranule;
  return bytes > kMost ? kMost : (bytes + kGranule - 1) / kGranule * kGranule;
}

std::optional<std::size_t> Heap::allocate(std::size_t bytes) {
  const std::size_t wanted = rounded(bytes);
  const auto fit = free_by_bytes_.lower_bound({wanted, 0});
  if (fit == free_by_bytes_.end()) return std::nullopt;
  const auto [size, offset] = *fit;
  free_by_bytes_.erase(fit);
  free_by_offset_.erase(offset);
  if (size > wanted) insert_free(offset + wanted, size - wanted);
  used_ += wanted;
  return offset;
}

void Heap::release(std::size_t offset, std::size_t bytes) {
  std::size_t size = rounded(bytes);
  used_ -= size;
  auto after = free_by_offset_.lower_bound(offset);
  if (after != free_by_offset_.end() && after->first == offset + size) {
    size += after->second;
    free_by_bytes_.erase({after->second, after->first});
    after = free_by_offset_.erase(after);
  }
  if (after != free_by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      free_by_bytes_.erase({before->second, before->first});
      free_by_offset_.erase(before);
    }
  }
  insert_free(offset, size);
}

std::size_t Heap::largest_free() const noexcept {
  return free_by_bytes_.empty() ? 0 : free_by_bytes_.rbegin()->first;
}

void Heap::insert_free(std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  free_by_offset_.emplace(offset, bytes);
  free_by_bytes_.emplace(bytes, offset);
}

}  // namespace weft::p2p
