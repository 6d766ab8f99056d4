// The ring through which this rank sends to a peer, with the messages that wait to enter the ring.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/message/control.hpp"
#include "p2p/message/offered_messages.hpp"
#include "p2p/message/operation.hpp"
#include "p2p/message/ring.hpp"
#include "p2p/message/ring_cursor.hpp"
#include "p2p/message/ring_staging.hpp"
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
  bool is_busy() const noexcept { return !queue_.empty() || !offered_.empty(); }

  /// Number of messages sent.
  std::uint64_t sent() const noexcept { return cursor_.sent(); }

  enum class Sent : std::uint8_t { yes, no_room, failed };
  /// Sends a tensor in host memory of at most Geometry::kLongPayload bytes, which are copied before
  /// the return. On `failed` see failure().
  Sent send(std::uint64_t tag, const Tensor& tensor) noexcept;
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
    offered_.take_acknowledged(words().acks, ended);
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
    // A peer that has left may have read some before.
    offered_.take_acknowledged(words().acks, ended);
    const auto failed = [&](Operation& operation) {
      operation.status = why;
      ended(operation);
    };
    offered_.take_all(failed);
    while (Operation* const first = queue_.first()) {
      queue_.remove(*first);
      failed(*first);
    }
  }
  /// True while a put waits for room in a fabric's queue or for an earlier put: nothing rings the
  /// doorbell when that ends.
  bool held_up() const noexcept { return held_up_; }
  /// True if no put is under way.
  bool has_completed() noexcept;

  bool listed = false;  ///< in MessageState::busy_

  EdgeCounters& counters() noexcept { return counters_; }
  GpuCounters& gpu_counters() noexcept { return row_.gpu_counters(); }
  weft::TransferCounters read_counters() const noexcept { return row_.read_counters(); }
  /// Its number in the records.
  std::uint64_t number() const noexcept { return number_; }

 private:
  enum class Answer : std::uint8_t { none, granted, refused };

  /// Opens the ring if the peer has granted it.
  bool open() noexcept;
  /// True if the staging memory of put `posted` may be reused; records a failure of that put.
  bool has_ended(std::uint64_t& posted) noexcept;
  /// Sends one message, that of `tensor`: its head, and `payload` behind it.
  Sent emit(Kind kind, std::uint64_t tag, const Tensor& tensor,
            std::span<const std::byte> payload) noexcept;
  Sent put(const Head& head, std::span<const std::byte> payload) noexcept;
  Sent send_queued(Operation& operation) noexcept;
  Sent offer(Operation& operation) noexcept;
  /// Finds memory of the operation's bytes that the peer can read, copying them if necessary.
  Status place(Operation& operation, MemoryRef& ref) noexcept;
  bool share(std::uint32_t chunk) noexcept;
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
  RemoteMemory ring_;
  std::byte* direct_ = nullptr;  ///< the ring in this process; null if it is not mapped here
  RingCursor cursor_;
  RingStaging staging_;  ///< open if the ring is not mapped
  static constexpr std::uint32_t kCopyDepth = 4;

  OperationList queue_;
  OfferedMessages offered_;
  std::vector<std::uint32_t> shared_;  ///< chunks shared with the peer
  const std::uint64_t number_;
  stats::EdgeRow row_;
  EdgeCounters& counters_;
};

}  // namespace weft::p2p::message
