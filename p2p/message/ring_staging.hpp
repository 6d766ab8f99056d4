// Staging memory of a sender, for fabrics that read the payload after put() returns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/message/ring.hpp"

namespace weft::p2p::message {

/// Laid out as the ring. For each cell and long buffer it knows the put that reads the staged
/// message; 0: none.
class RingStaging {
 public:
  /// Throws Error(exhausted) and std::bad_alloc.
  void open(const std::shared_ptr<Arena>& arena, const Geometry& geometry) {
    memory_ = OwnedBlock(arena, geometry.bytes());
    cell_put_.assign(geometry.cells, 0);
    long_put_.assign(geometry.longs, 0);
  }
  std::byte* at(std::uint64_t offset) const noexcept { return memory_.data() + offset; }
  std::uint64_t& cell_put(std::uint32_t cell) noexcept { return cell_put_[cell]; }
  std::uint64_t& long_put(std::uint32_t buffer) noexcept { return long_put_[buffer]; }
  /// True if `ended` is true of every put.
  template <typename Ended>
  bool all_of(const Ended& ended) noexcept {
    return std::all_of(cell_put_.begin(), cell_put_.end(), ended) &&
           std::all_of(long_put_.begin(), long_put_.end(), ended);
  }

 private:
  OwnedBlock memory_;
  std::vector<std::uint64_t> cell_put_;
  std::vector<std::uint64_t> long_put_;
};

}  // namespace weft::p2p::message
