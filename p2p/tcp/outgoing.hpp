// What a rail is to send: at once, or when the connection has room.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "p2p/arena/arena.hpp"
#include "p2p/tcp/exports.hpp"
#include "p2p/tcp/pipe.hpp"
#include "p2p/tcp/wire.hpp"

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
  bool is_whole = true;  ///< a reply: all its memory was still there
  OwnedBlock packed;     ///< what `runs` refer to, where it is a copy
  /// A word of a reply that is half out: the rest of what it was.
  std::array<std::byte, kSmall> rest;
  std::size_t rest_bytes = 0;

  std::uint64_t bytes() const noexcept {
    return sizeof(Head) + head.bytes + (pieces.empty() ? 0 : sizeof(Head));
  }
};

/// Records go out in their order. The caller locks, but for sent().
class Outgoing {
 public:
  /// Both must outlive it. `exports` has the memory that replies are read from.
  Outgoing(Pipe& pipe, const Exports& exports);

  bool is_empty() const noexcept { return count_ == 0 && !pipe_.holds(); }
  std::size_t waiting() const noexcept { return count_; }
  /// Whether the connection had no room for what waits. Otherwise it has only been put off, to go
  /// with what comes next.
  bool lacks_room() const noexcept { return count_ != 0 ? lacks_room_ : pipe_.holds(); }
  /// Numbers of records, from 1 on.
  std::uint64_t begun() const noexcept { return begun_; }
  /// Any thread: all up to this one were taken by the kernel.
  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_acquire); }

  /// Sends head and payload at once, as far as there is room; requires that nothing waits. Returns
  /// how many bytes are out: unless that is all, the caller adds a record of which so much is done.
  std::size_t send_now(const Head& head, std::span<const iovec> runs) noexcept;
  /// A record that waits behind all others, empty but for its head. Throws std::bad_alloc.
  Record& add(const Head& head);
  /// One that waits and has not begun, in order from the oldest; null: no more.
  Record* waiting_at(std::size_t index) noexcept;
  /// Sends what there is room for, at most about `most` bytes. Whether there was room for any.
  bool flush(std::size_t most) noexcept;
  /// Nothing that waits is read any more.
  void drop() noexcept;

  int error() const noexcept { return error_; }

 private:
  static constexpr std::size_t kMostParts = 128;  ///< of one system call

  class Gathered;
  Record& at(std::size_t index) noexcept { return ring_[(first_ + index) % ring_.size()]; }
  bool gather(Record& record, Gathered& into) noexcept;
  bool gather_reply(Record& record, std::uint64_t skip, Gathered& into) noexcept;
  void advance(const Gathered& gathered, std::size_t bytes) noexcept;
  void pop() noexcept;

  Pipe& pipe_;
  const Exports& exports_;
  std::vector<Record> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t begun_ = 0;
  std::atomic<std::uint64_t> sent_{0};
  bool lacks_room_ = false;
  int error_ = 0;
};

}  // namespace weft::p2p::tcp
