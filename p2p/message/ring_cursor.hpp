// A sender's position in the ring of its receiver.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "p2p/message/ring.hpp"

namespace weft::p2p::message {

/// The next cell and long buffer, and whether the receiver has released them. `credit` is the word
/// in which the receiver reports the messages that it has released.
class RingCursor {
 public:
  /// Throws std::bad_alloc.
  void open(const Geometry& geometry) {
    long_sequence_.assign(geometry.longs, 0);
    geometry_ = geometry;
  }

  /// Number of messages sent.
  std::uint64_t sent() const noexcept { return sent_; }
  std::uint32_t cell() const noexcept { return cell_; }
  std::uint32_t long_buffer() const noexcept { return long_; }
  /// Offset of the next long buffer in the ring.
  std::size_t long_offset() const noexcept {
    return geometry_.cell_bytes() + long_ * Geometry::long_stride();
  }

  bool cell_is_free(const std::atomic<std::uint64_t>& credit) noexcept {
    if (sent_ - released_ < geometry_.cells) return true;
    poll(credit);
    return sent_ - released_ < geometry_.cells;
  }
  bool long_is_free(const std::atomic<std::uint64_t>& credit) noexcept {
    if (long_sequence_[long_] <= released_) return true;
    poll(credit);
    return long_sequence_[long_] <= released_;
  }
  /// Counts a message in the next cell, and in the next long buffer if `is_long`.
  void advance(bool is_long) noexcept {
    ++sent_;
    if (is_long) {
      long_sequence_[long_] = sent_;
      long_ = long_ + 1 == geometry_.longs ? 0 : long_ + 1;
    }
    cell_ = cell_ + 1 == geometry_.cells ? 0 : cell_ + 1;
  }

 private:
  void poll(const std::atomic<std::uint64_t>& credit) noexcept {
    const std::uint64_t released = credit.load(std::memory_order_acquire);
    // The credit comes from the peer: ignore values that the protocol rules out.
    if (released > released_ && released <= sent_) released_ = released;
  }

  Geometry geometry_;
  std::uint64_t sent_ = 0;
  std::uint64_t released_ = 0;  ///< as last reported
  std::uint32_t cell_ = 0;
  std::uint32_t long_ = 0;
  std::vector<std::uint64_t> long_sequence_;  ///< by long buffer: its last message
};

}  // namespace weft::p2p::message
