// A ring through which a peer sends to this rank, with its messages that no receive has taken.
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

/// An arrived message; stays in the ring until release().
struct Arrived {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;       ///< position in its ring, from 1
  std::uint64_t order = 0;          ///< order of matching among the messages of all rings
  const std::byte* data = nullptr;  ///< null: the payload is offered
  Offer offer{};
  Kind kind = Kind::in_cell;
  DType dtype = DType::u8;
  bool gone = false;            ///< released, but an earlier message of the ring is not
  Arrived* previous = nullptr;  ///< in the list of unmatched messages
  Arrived* next = nullptr;
};

/// The progress thread constructs and grants the ring; from then on one application thread at a
/// time uses it.
class IncomingRing {
 public:
  /// Throws Error(exhausted).
  IncomingRing(LocalRank& local, Peer& peer, Geometry geometry);

  /// Resolves the sender's words and fills in `granted`. The ring's chunk must have been shared
  /// with the peer before. Throws Error. Progress thread.
  void grant(const RingWanted& wanted, RingGranted& granted);
  std::uint32_t chunk() const noexcept { return block_.block().chunk; }

  Peer& peer() const noexcept { return peer_; }

  /// True if a message has arrived that take() has not returned.
  bool ready() const noexcept { return next_cell_->word.load(std::memory_order_acquire) > taken_; }
  /// Takes the next message. Requires ready(). Null if the message is malformed; no more are taken
  /// then.
  Arrived* take() noexcept;
  /// True once the sender has written a malformed message.
  bool spoilt() const noexcept { return spoilt_; }

  std::uint64_t taken() const noexcept { return taken_; }

  // Messages that no receive has matched, in order of arrival.
  bool keeps() const noexcept { return first_ != nullptr; }
  /// Inserts `arrived` at its place by `order`.
  void keep(Arrived& arrived, std::uint64_t order) noexcept;
  Arrived* find(const Tag& tag) const noexcept;
  const Arrived* first_kept() const noexcept { return first_; }
  void drop(Arrived& arrived) noexcept;

  /// Copies the payload to `into`, which must be large enough, and releases the message. Requires
  /// `data`.
  void copy_out(Arrived& arrived, std::byte* into) noexcept;
  /// Tells the sender that its offer was read or will never be. The message still has to be
  /// released.
  void acknowledge(const Arrived& arrived) noexcept;
  /// Makes the message's cell reusable, and returns credit to the sender in batches.
  void release(Arrived& arrived) noexcept;

  EdgeCounters& counters() noexcept { return counters_; }
  GpuCounters& gpu_counters() noexcept { return row_.gpu_counters(); }
  weft::TransferCounters read_counters() const noexcept { return row_.read_counters(); }
  /// Its number in the records.
  std::uint64_t number() const noexcept { return number_; }

  IncomingRing* next = nullptr;  ///< in the list of the rank's rings

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
  std::uint32_t index_ = 0;  ///< index of the next cell
  std::uint32_t next_long_ = 0;
  std::vector<Arrived> arrived_;  ///< by cell
  Arrived* first_ = nullptr;
  Arrived* last_ = nullptr;

  std::uint64_t released_ = 0;        ///< all messages up to this one are released
  std::uint32_t released_index_ = 0;  ///< index of the cell after that message's
  std::uint64_t reported_ = 0;
  std::uint32_t longs_released_ = 0;  ///< long buffers released since `reported_`
  bool spoilt_ = false;
  const std::uint64_t number_;
  stats::EdgeRow row_;
  EdgeCounters& counters_;
};

}  // namespace weft::p2p::message
