// The ring through which this rank sends to a peer, with the messages that wait to enter the ring.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/message/control.hpp"
#include "p2p/message/operation.hpp"
#include "p2p/message/ring.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"

namespace weft::p2p::message {

/// One application thread at a time, except for the functions marked progress thread.
class OutgoingRing {
 public:
  /// Throws Error(exhausted).
  OutgoingRing(LocalRank& local, Mesh& mesh, Peer& peer);
  /// Asks the peer for a ring. The progress thread must be able to find this object before.
  void ask() noexcept;

  // Progress thread.
  void granted(const RingGranted& granted) noexcept;
  void refused(const RingRefused& refused) noexcept;

  Peer& peer() const noexcept { return peer_; }
  bool awaits_ring() const noexcept {
    return answer_.load(std::memory_order_acquire) == Answer::none;
  }
  /// True if a message may be sent at once: the ring is granted and nothing is queued before it.
  bool is_open() const noexcept { return open_ && queue_.empty(); }
  /// True if flush() may find something to do.
  bool is_busy() const noexcept { return !queue_.empty() || offers_ != 0; }

  /// Number of messages sent.
  std::uint64_t sent() const noexcept { return sent_; }

  enum class Sent : std::uint8_t { yes, no_room, failed };
  /// Sends at most Geometry::kLongPayload bytes; `data` is copied before the return. On `failed`
  /// see failure().
  Sent send(std::uint64_t tag, const std::byte* data, std::size_t bytes) noexcept;
  /// The error that broke the path, after which nothing is sent; ok if none.
  const Status& failure() const noexcept { return failure_; }

  void queue(Operation& operation) noexcept {
    operation.stage = Operation::Stage::queued;
    queue_.add(operation);
  }
  void unqueue(Operation& operation) noexcept { queue_.remove(operation); }
  /// Sends queued messages as far as credit allows, and ends offers that the peer has read. Calls
  /// `ended` for each operation that ends, with the outcome in its `status`.
  template <typename Ended>
  void flush(const Ended& ended) noexcept {
    if (!open_ && !open()) {
      if (!failure_.ok()) fail(failure_, ended);
      return;
    }
    take_acknowledged(ended);
    held_up_ = false;
    while (Operation* const first = queue_.first()) {
      const Sent sent = send_queued(*first);
      if (sent == Sent::failed && !failure_.ok()) return fail(failure_, ended);
      if (sent == Sent::no_room) return;
      queue_.remove(*first);
      if (first->stage == Operation::Stage::queued) ended(*first);
    }
  }
  /// Fails every queued message and every offer that the peer has not read.
  template <typename Ended>
  void fail(const Status& why, const Ended& ended) noexcept {
    take_acknowledged(ended);  // a peer that has left may have read some before
    for (Operation*& offered : offered_)
      if (Operation* const operation = std::exchange(offered, nullptr)) {
        operation->status = why;
        ended(*operation);
      }
    offers_ = 0;
    while (Operation* const first = queue_.first()) {
      queue_.remove(*first);
      first->status = why;
      ended(*first);
    }
  }
  /// True while a put waits for room in a fabric's queue or for an earlier put: nothing rings the
  /// doorbell when that ends.
  bool held_up() const noexcept { return held_up_; }
  /// True if no put is under way.
  bool has_completed() noexcept;

  bool listed = false;  ///< in MessageState::busy_

  EdgeCounters& counters() noexcept { return counters_; }
  const EdgeCounters& counters() const noexcept { return counters_; }

 private:
  enum class Answer : std::uint8_t { none, granted, refused };

  /// Opens the ring if the peer has granted it.
  bool open() noexcept;
  bool has_credit() noexcept;
  bool long_is_free() noexcept;
  void poll_credit() noexcept;
  /// True if the staging memory of put `posted` may be reused; records a failure of that put.
  bool has_ended(std::uint64_t& posted) noexcept;
  /// Sends one message: its head, and `payload` behind it.
  Sent emit(Kind kind, std::uint64_t tag, std::uint64_t size,
            std::span<const std::byte> payload) noexcept;
  Sent put(const Head& head, std::span<const std::byte> payload) noexcept;
  Sent send_queued(Operation& operation) noexcept;
  Sent offer(Operation& operation) noexcept;
  /// Finds memory of the operation's bytes that the peer can read, copying them if necessary.
  Status place(Operation& operation, MemoryRef& ref) noexcept;
  bool share(std::uint32_t chunk) noexcept;
  template <typename Ended>
  void take_acknowledged(const Ended& ended) noexcept {
    if (offers_ == 0) return;
    for (std::uint32_t i = 0; i < SenderWords::kOffers; ++i) {
      Operation* const operation = offered_[i];
      if (operation == nullptr ||
          words().acks[i].load(std::memory_order_acquire) < operation->awaited)
        continue;
      offered_[i] = nullptr;
      --offers_;
      ended(*operation);
    }
  }
  SenderWords& words() const noexcept { return *reinterpret_cast<SenderWords*>(words_.data()); }

  LocalRank& local_;
  Mesh& mesh_;
  Peer& peer_;
  OwnedBlock words_;

  std::atomic<Answer> answer_{Answer::none};
  RingGranted granted_;  ///< set before `answer_`
  Status failure_;       ///< set before `answer_` if the peer refused

  bool open_ = false;
  bool held_up_ = false;
  Geometry geometry_;
  RemoteMemory ring_;
  std::byte* direct_ = nullptr;  ///< the ring in this process; null if it is not mapped here
  std::uint64_t sent_ = 0;
  std::uint64_t known_released_ = 0;
  std::uint32_t index_ = 0;  ///< index of the next cell
  std::uint32_t next_long_ = 0;
  std::vector<std::uint64_t> long_sequence_;  ///< by long buffer: its last message

  // Staging, for fabrics that read the payload after put() returns.
  OwnedBlock staging_;                      ///< laid out as the ring
  std::vector<std::uint64_t> cell_posted_;  ///< by cell: the put that reads it; 0: none
  std::vector<std::uint64_t> long_posted_;
  static constexpr std::uint32_t kCopyDepth = 4;

  OperationList queue_;
  std::array<Operation*, SenderWords::kOffers> offered_{};
  std::uint32_t offers_ = 0;
  std::vector<std::uint32_t> shared_;  ///< chunks shared with the peer
  EdgeCounters counters_;
};

}  // namespace weft::p2p::message
