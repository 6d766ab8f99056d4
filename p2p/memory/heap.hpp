// The allocator of a chunk's bytes: best fit, coalescing, 64-byte granules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace weft::p2p {

/// Allocates ranges of [0, bytes). Handles offsets only and never touches the memory. Allocation
/// and release take O(log free ranges). Not thread-safe.
class Heap {
 public:
  static constexpr std::size_t kGranule = 64;

  explicit Heap(std::size_t bytes);

  /// Rounds `bytes` up to whole granules, at least one. nullopt if no free range is large enough.
  std::optional<std::size_t> allocate(std::size_t bytes);
  /// `bytes` must equal the argument of allocate().
  void release(std::size_t offset, std::size_t bytes);

  std::size_t used() const noexcept { return used_; }
  std::size_t largest_free() const noexcept;
  static std::size_t rounded(std::size_t bytes) noexcept;

 private:
  void insert_free(std::size_t offset, std::size_t bytes);

  std::map<std::size_t, std::size_t> free_by_offset_;            // offset -> bytes
  std::set<std::pair<std::size_t, std::size_t>> free_by_bytes_;  // (bytes, offset)
  std::size_t used_ = 0;
};

}  // namespace weft::p2p
