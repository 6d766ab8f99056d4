// Records that wait to go out by a rail.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/tcp/wire.hpp"

namespace weft::p2p::tcp {

/// A record that waits for room, or a part of one.
struct Record {
  static constexpr std::size_t kSmall = 64;

  Head head;
  std::uint64_t done = 0;               ///< bytes of head and payload that are out
  std::vector<iovec> runs;              ///< the payload where it lies, or
  std::array<std::byte, kSmall> small;  ///< a copy of it, or
  std::vector<std::byte> copy;          ///< a longer one, or
  std::vector<GetPiece> pieces;         ///< what a get has asked for, and after it a reply_end
  bool is_small = false;
  bool is_whole = true;   ///< a reply: all its memory was still there
  std::uint64_t put = 0;  ///< over several rails: the put that ends when this one is taken; or 0
  OwnedBlock packed;      ///< what `runs` refer to, where it is a copy
  /// A word of a reply that is half out: the rest of what it was.
  std::array<std::byte, kSmall> rest;
  std::size_t rest_bytes = 0;

  /// The payload: a small one is copied.
  void fill(std::span<const iovec> parts, OwnedBlock owned) {
    if (head.bytes > kSmall) {
      runs.assign(parts.begin(), parts.end());
      packed = std::move(owned);
      return;
    }
    std::byte* to = small.data();
    for (const iovec& part : parts) {
      std::memcpy(to, part.iov_base, part.iov_len);
      to += part.iov_len;
    }
    is_small = true;
  }
  std::uint64_t bytes() const noexcept {
    return sizeof(Head) + head.bytes + (pieces.empty() ? 0 : sizeof(Head));
  }
};

/// Records in their order. Their memory stays with it: in the steady state nothing is allocated.
class RecordRing {
 public:
  RecordRing() : records_(kFirst) {
    // Deferred records take turns through all of them, and must not allocate in each.
    for (Record& record : records_) record.runs.reserve(1);
  }
  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  Record& at(std::size_t index) noexcept { return records_[(first_ + index) % records_.size()]; }

  /// One behind all others, empty but for its head. Throws std::bad_alloc.
  Record& add(const Head& head) {
    if (count_ == records_.size()) {
      std::vector<Record> larger(2 * records_.size());
      for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(at(i));
      records_ = std::move(larger);
      first_ = 0;
    }
    Record& record = at(count_++);
    record.head = head;
    record.done = 0;
    record.runs.clear();
    record.copy.clear();
    record.pieces.clear();
    record.is_small = false;
    record.is_whole = true;
    record.rest_bytes = 0;
    record.put = 0;
    return record;
  }
  /// Takes one over from another ring. Throws std::bad_alloc.
  void add(Record&& from) {
    const Head head = from.head;
    std::swap(add(head), from);
  }
  void pop() noexcept {
    at(0).packed = {};
    first_ = (first_ + 1) % records_.size();
    --count_;
  }

 private:
  static constexpr std::size_t kFirst = 16;

  std::vector<Record> records_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace weft::p2p::tcp
