// A log of all that goes by the main link in order, until the peer has handled it: all but the
// shares of large tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "p2p/transport/put_work.hpp"
#include "p2p/transport/verbs/queue_pair.hpp"
#include "p2p/transport/verbs/work_request_chain.hpp"

namespace weft::p2p::verbs {

/// A put, a message or an empty notification, as any link can send it again.
struct OrderedItem {
  std::uint64_t posted = 0;         ///< its put's answer; 0: it is none, or lends nothing
  std::vector<MemoryPiece> pieces;  ///< lent by their owners, with no key that counts
  std::vector<std::byte> bytes;     ///< a small put's payload, or a message
  RemoteMemory to{};                ///< of the payload, with the first link's key
  std::uint32_t immediate = 0;
  bool is_message = false;  ///< `bytes`, which go behind the pieces
};

/// Of one of the main link's queue pairs. Numbered from 1; a later one takes the place of one that
/// the peer must have handled, as a notification is sent only if its receive was posted again.
/// Guarded by the lock of that queue pair; while there is none, by the outbox.
class OrderedLog {
 public:
  static constexpr std::size_t kRoom = QueuePair::kReceives;

  /// Room for small puts, so that logging one allocates nothing. Throws std::bad_alloc.
  void reserve(std::size_t bytes) {
    for (OrderedItem& item : items_) item.bytes.reserve(bytes);
  }
  std::uint64_t sent() const noexcept { return sent_; }
  OrderedItem& at(std::uint64_t number) noexcept { return items_[number % kRoom]; }
  /// The place of the next, cleared.
  OrderedItem& next() noexcept {
    OrderedItem& item = at(sent_ + 1);
    item.posted = 0;
    item.pieces.clear();
    item.bytes.clear();
    item.to = {};
    item.immediate = 0;
    item.is_message = false;
    return item;
  }
  /// It was sent.
  void add() noexcept { ++sent_; }

 private:
  std::array<OrderedItem, kRoom> items_{};
  std::uint64_t sent_ = 0;
};

/// A word of the peer's that was written.
struct LoggedWord {
  RemoteMemory place{};  ///< with the first link's key
  std::uint64_t value = 0;
  std::uint64_t after = 0;  ///< ordered items that were sent before
  std::size_t pair = 0;     ///< that carried it
  std::uint64_t request = 0;
};

/// The latest words, as many as may be under way. Guarded as an OrderedLog.
class WordLog {
 public:
  void make_room(std::size_t words) { words_.resize(words); }
  /// Words are numbered from 0: those from first() to end() are here.
  std::uint64_t end() const noexcept { return end_; }
  std::uint64_t first() const noexcept {
    return end_ - std::min<std::uint64_t>(end_, words_.size());
  }
  LoggedWord& at(std::uint64_t number) noexcept { return words_[number % words_.size()]; }
  void add(const LoggedWord& word) noexcept {
    at(end_) = word;
    ++end_;
  }
  /// The value that its place holds in the end.
  std::uint64_t last_value(const RemoteMemory& place) noexcept {
    for (std::uint64_t i = end_; i > first(); --i)
      if (at(i - 1).place.address == place.address && at(i - 1).place.key == place.key)
        return at(i - 1).value;
    return 0;
  }

 private:
  std::vector<LoggedWord> words_;
  std::uint64_t end_ = 0;
};

}  // namespace weft::p2p::verbs
