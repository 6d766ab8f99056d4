// Records that a rail sends: at once, or when the connection has room.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/tcp/exports.hpp"
#include "p2p/transport/tcp/pipe.hpp"
#include "p2p/transport/tcp/record.hpp"
#include "p2p/transport/tcp/wire.hpp"

namespace weft::p2p::tcp {

/// Records go out in their order, but for urgent ones, which go between the records of what waits:
/// a large tensor is several. The caller locks, but for sent().
class SendQueue {
 public:
  /// Both must outlive it. `exports` has the memory that replies are read from.
  SendQueue(Pipe& pipe, const Exports& exports);

  bool is_empty() const noexcept { return ring_.empty() && urgent_.empty() && !pipe_.holds(); }
  /// Without the parts of puts, and what is urgent.
  std::size_t waiting() const noexcept { return ring_.size() - parts_; }
  /// Whether the connection had no room for what waits. Otherwise it has only been put off, to go
  /// with what comes next.
  bool lacks_room() const noexcept {
    return ring_.empty() && urgent_.empty() ? pipe_.holds() : lacks_room_;
  }
  /// Numbers of records that are not urgent, from 1 on.
  std::uint64_t begun() const noexcept { return begun_; }
  /// Any thread: all up to this one were taken by the kernel.
  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_acquire); }

  /// Sends head and payload at once, as far as there is room; requires that nothing waits. Returns
  /// how many bytes are out: unless that is all, the caller adds a record with this much `done`.
  std::size_t send_now(const Head& head, std::span<const iovec> runs) noexcept;
  /// A record that waits behind all others, empty but for its head. Throws std::bad_alloc.
  Record& add(const Head& head);
  /// One that waits behind those that are urgent alone. Throws std::bad_alloc.
  Record& add_urgent(const Head& head);
  /// Whether any was ever put off.
  bool has_been_urgent() const noexcept { return was_urgent_; }
  /// An urgent one that waits and has not begun, and is of that kind and for that word; null: there
  /// is none.
  Record* find_urgent(Kind kind, std::uint64_t address, std::uint32_t key) noexcept;
  /// Whether messages wait behind puts.
  bool holds_messages() const noexcept { return messages_ != 0; }
  /// Sends what there is room for, at most about `most` bytes. Whether there was room for any.
  bool flush(std::size_t most) noexcept;
  /// Nothing that waits is read any more.
  void drop() noexcept;

  // Where there are several rails.
  /// Before the first record: each stays, once it is out, until the peer has taken it. All records
  /// are then added and flushed.
  void keep() noexcept { keeps_ = true; }
  /// Throws std::bad_alloc.
  void add(Record&& record);
  void add_urgent(Record&& record) { urgent_.add(std::move(record)); }
  /// Whether a record counts among those that the other end takes.
  static bool is_counted(Kind kind) noexcept {
    return kind != Kind::taken && kind != Kind::reply;  // the latter's reply_end is
  }
  /// The peer has taken that many of this connection's records: calls `on` for each that is new.
  /// False: there are fewer.
  template <typename On>
  bool taken(std::uint64_t count, const On& on) {
    if (count < taken_ || count - taken_ > kept_.size()) return false;
    for (; taken_ < count; ++taken_) {
      on(kept_.at(0));
      kept_.pop();
    }
    return true;
  }
  /// Whether the peer is still to take any.
  bool holds_any() const noexcept { return !kept_.empty() || !ring_.empty() || !urgent_.empty(); }
  /// Whether the peer is still to take any whose order matters: none of pieces, and of rails.
  bool holds_ordered() noexcept {
    for (RecordRing* const ring : {&kept_, &ring_, &urgent_})
      for (std::size_t i = 0; i < ring->size(); ++i) {
        const Kind kind = ring->at(i).head.kind;
        if (kind != Kind::piece && kind != Kind::taken && kind != Kind::rail_down &&
            kind != Kind::rail_up)
          return true;
      }
    return false;
  }
  /// The connection is over: hands over what the peer has not taken, in order, as it was before it
  /// was sent, and forgets it.
  template <typename On>
  void take_back(const On& on) {
    const bool begun = has_begun();
    const auto hand_over = [&on](RecordRing& ring) {
      Record& record = ring.at(0);
      record.done = record.rest_bytes = 0;
      record.is_whole = true;
      on(std::move(record));
      ring.pop();
    };
    while (!kept_.empty()) hand_over(kept_);
    if (begun) hand_over(ring_);
    while (!urgent_.empty()) hand_over(urgent_);
    while (!ring_.empty()) hand_over(ring_);
    parts_ = messages_ = 0;
    taken_ = 0;
    lacks_room_ = false;
    error_ = 0;
  }

  int error() const noexcept { return error_; }
  /// Before the first record: heads that are made here have a checksum.
  void use_checksums() noexcept { checksums_ = true; }

 private:
  static constexpr std::size_t kMostParts = 128;  ///< of one system call

  class Gathered;
  /// In the order in which they go out.
  Record& next(std::size_t index) noexcept;
  bool has_begun() noexcept { return !ring_.empty() && ring_.at(0).done != 0; }
  bool gather(Record& record, Gathered& into) noexcept;
  bool gather_reply(Record& record, std::uint64_t skip, Gathered& into) noexcept;
  void advance(const Gathered& gathered, std::size_t bytes) noexcept;
  void pop() noexcept;
  void leave(RecordRing& ring) noexcept;

  Pipe& pipe_;
  const Exports& exports_;
  RecordRing ring_;
  RecordRing urgent_;
  RecordRing kept_;  ///< out, and not taken yet; in their order on the wire
  std::uint64_t taken_ = 0;
  bool keeps_ = false;
  std::size_t parts_ = 0;         ///< in the ring
  std::size_t messages_ = 0;      ///< in the ring
  std::uint64_t pieces_out_ = 0;  ///< bytes, since another tensor went out
  std::uint64_t begun_ = 0;
  std::atomic<std::uint64_t> sent_{0};
  bool was_urgent_ = false;
  bool lacks_room_ = false;
  bool checksums_ = false;
  int error_ = 0;
};

}  // namespace weft::p2p::tcp
