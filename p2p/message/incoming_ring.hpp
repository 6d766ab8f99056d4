// A ring that a peer sends through to this rank, with the messages in it that nobody has received.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "p2p/mesh/peer.hpp"
#include "p2p/message/control.hpp"
#include "p2p/message/ring.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/message.hpp"

namespace weft::p2p::message {

/// A message that has come. It lies in the ring until it is let go.
struct Arrived {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;       ///< in its ring
  std::uint64_t order = 0;          ///< among those of all rings, once it was taken
  const std::byte* data = nullptr;  ///< null: offered
  Offer offer{};
  Kind kind = Kind::in_cell;
  bool gone = false;            ///< let go, but one before it is not
  Arrived* previous = nullptr;  ///< in the list of those kept
  Arrived* next = nullptr;
};

/// Made and granted by the progress thread, from then on one application thread's at a time.
class IncomingRing {
 public:
  /// Throws Error(exhausted).
  IncomingRing(LocalRank& local, Peer& peer, Geometry geometry);

  /// Progress thread: takes the sender's words and fills the grant. The peer must be let know the
  /// ring's chunk first. Throws Error.
  void grant(const RingWanted& wanted, RingGranted& granted);
  std::uint32_t chunk() const noexcept { return block_.block().chunk; }

  Peer& peer() const noexcept { return peer_; }

  /// Whether one has come that was not taken.
  bool ready() const noexcept { return next_cell_->word.load(std::memory_order_acquire) > taken_; }
  /// Requires ready(). Null: what has come makes no sense, and nothing more will be taken.
  Arrived* take() noexcept;
  /// The sender broke the rules.
  bool spoilt() const noexcept { return spoilt_; }

  std::uint64_t taken() const noexcept { return taken_; }

  // Those that no receive has matched, in order.
  bool keeps() const noexcept { return first_ != nullptr; }
  /// Behind all others that came before it by `order`.
  void keep(Arrived& arrived, std::uint64_t order) noexcept;
  Arrived* find(const Tag& tag) const noexcept;
  void drop(Arrived& arrived) noexcept;

  /// Requires data: copies it to `into`, which has room, and lets the message go.
  void copy_out(Arrived& arrived, std::byte* into) noexcept;
  /// Tells the sender that an offer was read, or never will be. The message's place is free.
  void acknowledge(const Arrived& arrived) noexcept;
  /// The message's place may be written again.
  void release(Arrived& arrived) noexcept;

  EdgeCounters& counters() noexcept { return counters_; }
  const EdgeCounters& counters() const noexcept { return counters_; }

  IncomingRing* next = nullptr;  ///< in the list of a rank's rings

 private:
  Cell& cell(std::uint64_t index) const noexcept {
    return reinterpret_cast<Cell*>(block_.data())[index];
  }
  Arrived* spoil(const char* what) noexcept;
  void report() noexcept;

  LocalRank& local_;
  Peer& peer_;
  const Geometry geometry_;
  OwnedBlock block_;
  std::byte* const longs_;
  RemoteMemory words_there_;

  Cell* next_cell_;
  std::uint64_t taken_ = 0;
  std::uint32_t index_ = 0;  ///< of the next cell
  std::uint32_t next_long_ = 0;
  std::vector<Arrived> arrived_;  ///< by cell
  Arrived* first_ = nullptr;
  Arrived* last_ = nullptr;

  std::uint64_t released_ = 0;        ///< all up to this one were
  std::uint32_t released_index_ = 0;  ///< of the cell after it
  std::uint64_t reported_ = 0;
  std::uint32_t longs_released_ = 0;  ///< since then
  bool spoilt_ = false;
  EdgeCounters counters_;
};

}  // namespace weft::p2p::message
