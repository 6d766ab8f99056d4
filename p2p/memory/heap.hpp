// The allocator of a chunk's bytes: best fit, coalescing, whole granules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace weft::p2p {

/// Allocates ranges of [0, bytes). Handles offsets only and never touches the memory. Allocation
/// and release take O(log free ranges). Release needs no memory: an allocation brings the node of
/// the free range that its release may add. Not thread-safe.
class Heap {
 public:
  static constexpr std::size_t kGranule = 64;

  /// Ranges begin and end at multiples of `granule`, a power of two.
  explicit Heap(std::size_t bytes, std::size_t granule = kGranule);

  /// Rounds `bytes` up to whole granules, at least one. nullopt if no free range is large enough.
  /// Throws std::bad_alloc.
  std::optional<std::size_t> allocate(std::size_t bytes);
  /// `bytes` must equal the argument of allocate().
  void release(std::size_t offset, std::size_t bytes) noexcept;

  std::size_t used() const noexcept { return used_; }
  std::size_t largest_free() const noexcept;
  static std::size_t rounded(std::size_t bytes, std::size_t granule = kGranule) noexcept;
  /// The bytes that allocate(bytes) takes.
  std::size_t taken(std::size_t bytes) const noexcept { return rounded(bytes, granule_); }

 private:
  using ByOffset = std::map<std::size_t, std::size_t>;            // offset -> bytes
  using ByBytes = std::set<std::pair<std::size_t, std::size_t>>;  // (bytes, offset)
  struct Node {
    ByOffset::node_type by_offset;
    ByBytes::node_type by_bytes;
  };

  void add_spare();
  Node take_out(ByOffset::iterator range) noexcept;
  void put_in(Node node, std::size_t offset, std::size_t bytes) noexcept;

  std::size_t granule_;
  ByOffset free_by_offset_;
  ByBytes free_by_bytes_;
  /// Free ranges and spares are one more than the allocated ranges, which is the most that can be
  /// free.
  std::vector<Node> spare_;
  std::size_t allocated_ = 0;  // ranges
  std::size_t used_ = 0;
};

}  // namespace weft::p2p
