// The records that one end sends by several rails: all records but pieces by one of them in order,
// pieces by all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "p2p/transport/tcp/piece_pool.hpp"
#include "p2p/transport/tcp/record.hpp"

namespace weft::p2p::tcp {

/// Puts that the peer has not taken yet, by number; they end in order. The caller locks, but for
/// ended().
class UntakenPuts {
 public:
  /// A put of that many records; its number, from 1 on. Throws std::bad_alloc.
  std::uint64_t add(std::size_t records) {
    left_.push_back(records);
    return begun();
  }
  std::uint64_t begun() const noexcept { return ended() + left_.size(); }
  /// One record of the put was taken.
  void taken(std::uint64_t put) noexcept {
    --left_[put - ended() - 1];
    while (!left_.empty() && left_.front() == 0) {
      left_.pop_front();
      ended_.store(ended() + 1, std::memory_order_release);
    }
  }
  /// Any thread: all up to this one have been taken.
  std::uint64_t ended() const noexcept { return ended_.load(std::memory_order_acquire); }

 private:
  std::deque<std::size_t> left_;
  std::atomic<std::uint64_t> ended_{0};
};

/// The sending side's part that only several rails need. The main rail carries all but pieces.
struct Lanes {
  /// A rail that was the main one and has failed, or is up and is to be it no longer, until the
  /// peer has said what it took: nothing may overtake the rest.
  std::optional<std::size_t> fenced;
  bool awaits_first = false;  ///< no rail has been up yet; the main one counts as fenced
  RecordRing held;            ///< until then, or until a striped put before them has arrived
  RecordRing held_urgent;
  PiecePool pool;
  UntakenPuts puts;
  std::uint64_t last_striped = 0;  ///< number of the last put in pieces that is not held
  std::uint32_t stripes = 0;

  /// Nothing that waits is read any more.
  void drop() noexcept {
    while (!held.empty()) held.pop();
    while (!held_urgent.empty()) held_urgent.pop();
    pool.clear();
  }
  /// Whether a striped put has not arrived yet: it would be overtaken.
  bool is_striping() const noexcept { return puts.ended() < last_striped; }
};

}  // namespace weft::p2p::tcp
