// The ring through which this rank sends to a peer, and what waits to go there.
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

/// Thread-safety: one application thread at a time, but for what is the progress thread's.
class OutgoingRing {
 public:
  /// Throws Error(exhausted).
  OutgoingRing(LocalRank& local, Mesh& mesh, Peer& peer);
  /// Once the progress thread can find it: asks the peer for a ring.
  void ask() noexcept;

  // Progress thread.
  void granted(const RingGranted& granted) noexcept;
  void refused(const RingRefused& refused) noexcept;

  Peer& peer() const noexcept { return peer_; }
  bool awaits_ring() const noexcept {
    return answer_.load(std::memory_order_acquire) == Answer::none;
  }
  /// Whether a message may go at once: there is a ring, and nothing waits to go before it.
  bool is_open() const noexcept { return open_ && queue_.empty(); }
  /// Whether flush() may find something to do.
  bool is_busy() const noexcept { return !queue_.empty() || offers_ != 0; }

  /// Messages that have left so far.
  std::uint64_t sent() const noexcept { return sent_; }

  enum class Sent : std::uint8_t { yes, no_room, failed };
  /// At most Geometry::kLongPayload bytes, taken at once. `failed`: see failure().
  Sent send(std::uint64_t tag, const std::byte* data, std::size_t bytes) noexcept;
  /// The path is broken: nothing more goes.
  const Status& failure() const noexcept { return failure_; }

  void queue(Operation& operation) noexcept {
    operation.stage = Operation::Stage::queued;
    queue_.add(operation);
  }
  void unqueue(Operation& operation) noexcept { queue_.remove(operation); }
  /// Sends what is queued and may go; ends what the peer has read. `ended` gets each operation that
  /// ends, its outcome in its status.
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
  /// What the peer has not read yet will neither go nor be read.
  template <typename Ended>
  void fail(const Status& why, const Ended& ended) noexcept {
    take_acknowledged(ended);  // a peer that has left may have read them before
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
  /// A fabric's queue was full, or a put has not ended: nobody rings for that.
  bool held_up() const noexcept { return held_up_; }
  /// Whether no put is under way.
  bool has_completed() noexcept;

  bool listed = false;  ///< among its rank's busy ones

  EdgeCounters& counters() noexcept { return counters_; }
  const EdgeCounters& counters() const noexcept { return counters_; }

 private:
  enum class Answer : std::uint8_t { none, granted, refused };

  /// Takes the answer to the question for a ring.
  bool open() noexcept;
  bool has_credit() noexcept;
  bool long_is_free() noexcept;
  void poll_credit() noexcept;
  /// Whether the staging's memory may be written again; a failure is noticed here.
  bool has_ended(std::uint64_t& posted) noexcept;
  /// One message: its head, and what follows it.
  Sent emit(Kind kind, std::uint64_t tag, std::uint64_t size,
            std::span<const std::byte> payload) noexcept;
  Sent put(const Head& head, std::span<const std::byte> payload) noexcept;
  Sent send_queued(Operation& operation) noexcept;
  Sent offer(Operation& operation) noexcept;
  /// Where the peer can read the operation's bytes.
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
  RingGranted granted_;  ///< set before the answer
  Status failure_;       ///< the same of a refusal

  bool open_ = false;
  bool held_up_ = false;
  Geometry geometry_;
  RemoteMemory ring_;
  std::byte* direct_ = nullptr;  ///< the ring, where this process can write there itself
  std::uint64_t sent_ = 0;
  std::uint64_t known_released_ = 0;
  std::uint32_t index_ = 0;  ///< of the next cell
  std::uint32_t next_long_ = 0;
  std::vector<std::uint64_t> long_sequence_;  ///< by long buffer: the last message in it

  // Where the fabric reads what it puts.
  OwnedBlock staging_;                      ///< laid out as the ring
  std::vector<std::uint64_t> cell_posted_;  ///< by cell
  std::vector<std::uint64_t> long_posted_;
  static constexpr std::uint32_t kCopyDepth = 4;

  OperationList queue_;
  std::array<Operation*, SenderWords::kOffers> offered_{};
  std::uint32_t offers_ = 0;
  std::vector<std::uint32_t> shared_;  ///< chunks that the peer was let know
  EdgeCounters counters_;
};

}  // namespace weft::p2p::message
