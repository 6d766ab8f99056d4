// One reliable connection: what is under way on it, and how much more it takes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/fabric.hpp"
#include "p2p/transport/verbs/completions.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/post_lock.hpp"
#include "p2p/transport/verbs/regions.hpp"

namespace weft::p2p::verbs {

/// Events of a queue pair for its channel. The lock of a completion queue is held, no queue pair's.
class QueuePairEvents {
 public:
  virtual ~QueuePairEvents() = default;
  /// An immediate, or the message that stands for one.
  virtual void notified(int queue_pair, std::uint32_t immediate) noexcept = 0;
  virtual void message(int queue_pair, std::span<const std::byte> bytes) noexcept = 0;
  /// A work request failed, or the peer's queue pair is gone.
  virtual void failed(int queue_pair, const ibv_wc& completion) noexcept = 0;
  /// Work requests have completed: there may be room again.
  virtual void on_room() noexcept = 0;
};

/// Data that the two ends of a queue pair exchange before it works.
struct QueuePairAddress {
  std::uint32_t number = 0;
  std::uint32_t first_psn = 0;  ///< of what it sends
  RemoteMemory receives;        ///< word in its memory: how many receives its peer has posted
};

class QueuePair {
 public:
  /// Receives that are posted at any time: as many notifications may be under way to it.
  static constexpr std::uint32_t kReceives = 64;

  struct Options {
    int peer = -1;
    int index = 0;  ///< among the peer's
    std::size_t receive_bytes = 0;
    std::uint32_t depth = 0;
    /// Its loss is made good by others (Revival): a failed request does not count as ended.
    bool recoverable = false;
  };
  /// All must outlive it. Receives are posted; nothing arrives before connect(). Throws Error.
  QueuePair(Device& device, LocalRank& local, Regions& regions, Completions& completions,
            QueuePairEvents& events, Options options);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  const QueuePairAddress& address() const noexcept { return address_; }
  /// "rank 3 #0"
  std::string name() const;
  ibv_qp* get() const noexcept { return handle_.get(); }
  /// Sets the address of the peer's queue pair.
  void set_peer(const QueuePairAddress& peer) noexcept { peer_ = peer; }
  /// Readies it for the peer that was introduced, at this port. Throws Error.
  void connect(const VerbsAddress& port);
  /// It was readied for the peer that was introduced.
  void mark_connected() noexcept { connected_.store(true, std::memory_order_release); }
  bool data_in_order() const noexcept;
  struct Limits {
    std::uint32_t max_inline = 0;   ///< bytes that travel in a work request itself
    std::uint32_t max_pieces = 1;   ///< of memory, in one work request
    std::uint64_t max_message = 0;  ///< bytes of one work request
    /// Work requests that always find room sooner or later when they are posted at once.
    std::uint32_t max_chain = 0;
  };
  const Limits& limits() const noexcept { return limits_; }

  /// Posting: hold the lock from asking for room to the last post.
  PostLock& mutex() noexcept { return mutex_; }
  /// Whether `requests` work requests, of which `notifications` notify the peer, may be posted now.
  bool has_room_for(std::uint32_t requests, std::uint32_t notifications) noexcept {
    const std::uint64_t under_way =
        posted_.load(std::memory_order_relaxed) - ended_.load(std::memory_order_acquire);
    if (under_way + requests + kReserve > options_.depth) return false;
    if (!connected_.load(std::memory_order_relaxed)) return false;
    return notifications == 0 || notified_.load(std::memory_order_relaxed) + notifications <=
                                     kReceives + receives_reported();
  }
  /// Posts a chain; wr_id and signalling are set here. `lent`: a caller will ask for its end. A
  /// report of receives may go along behind it, and then counts among what was posted.
  /// Returns 0 or an errno; with ENOMEM nothing was posted, and it may be tried again.
  int post(ibv_send_wr* chain, std::uint32_t requests, std::uint32_t notifications,
           bool lent) noexcept;
  /// The number of the last posted request; requests end in order.
  std::uint64_t posted() const noexcept { return posted_.load(std::memory_order_acquire); }
  /// A word of registered memory, with its key, for the last of the `requests` posted next: its
  /// own until that has ended.
  std::pair<std::uint64_t*, std::uint32_t> next_word(std::uint32_t requests) noexcept;
  std::uint64_t notifications_sent() const noexcept { return notified_.load(); }

  bool has_succeeded(std::uint64_t request) const noexcept {
    return succeeded_.load(std::memory_order_acquire) >= request;
  }
  /// Succeeded, failed or flushed: its memory is not touched any more.
  bool has_ended(std::uint64_t request) const noexcept {
    return ended_.load(std::memory_order_acquire) >= request;
  }
  /// Makes sure that the end of everything posted so far will show.
  void ask_for_completion() noexcept;
  /// Asks again if there was no room to ask.
  void retry_request() noexcept {
    if (unasked_.load(std::memory_order_relaxed)) ask_for_completion();
  }
  /// Progress thread, a few times a second: where nothing of what is under way has ended since the
  /// last time, posts something small behind it. That sets a driver going again which has stopped
  /// sending again (rdma_rxe); to others it is a request like any other.
  void kick() noexcept;
  /// Everything under way is flushed; nothing of the peer arrives any more. Any thread.
  void to_error() noexcept;

  /// Its last act: no completion of it is handled any more. May be asked for again.
  void retire() noexcept;

  /// Notifications of the peer that were handled.
  std::uint64_t notifications_seen() const noexcept {
    return receives_.seen.load(std::memory_order_acquire);
  }

  // The completion queue's.
  void completed(const ibv_wc& completion) noexcept;
  /// After a batch of them. True: used receives are not posted again yet.
  bool on_batch_done() noexcept;
  /// Called when a poll comes back empty: posts used receives again, and reports them to the
  /// peer. Until then they are not, but for many.
  void repost_receives() noexcept;

 private:
  friend class Revival;
  static constexpr std::uint64_t kIsReceive = std::uint64_t{1} << 63U;
  static constexpr std::uint32_t kReserve = 4;  ///< requests kept for reporting receives

  /// Often enough that a queue without room has a completion under way.
  std::uint32_t signal_every() const noexcept { return std::min(16U, options_.depth / 4); }

  /// A signaled request that moves nothing. With the lock held; 0 or an errno.
  int post_nothing() noexcept;
  /// The word that the peer writes: the receives that it has posted besides the first ones.
  std::uint64_t receives_reported() const noexcept;
  void believe_reported(std::uint64_t count) noexcept;
  /// A failed or flushed request; with it all before.
  void flushed(std::uint64_t request) noexcept;
  void raise_ended(std::uint64_t request) noexcept;
  /// Those that were used. An errno, or 0.
  int post_receives() noexcept;
  void received(const ibv_wc& completion) noexcept;
  std::uint64_t receives_unreported() const noexcept {
    return receives_.posted.load(std::memory_order_acquire) + kReceives -
           receives_.reported.load(std::memory_order_relaxed);
  }
  /// A request that tells the peer how many receives have been posted for it.
  struct Report {
    std::uint64_t count = 0;
    ibv_sge place;
    ibv_send_wr work;
  };
  /// With the lock held, for the last of the `requests` posted next.
  void make_report(Report& report, std::uint32_t requests) noexcept;
  /// With the lock held: whether one goes along with the `requests` posted next.
  bool takes_report(std::uint32_t requests) const noexcept;
  void report_receives() noexcept;

  Device& device_;
  Completions& completions_;
  QueuePairEvents& events_;
  const Options options_;
  OwnedBlock words_;     ///< control: the peer's receives, then one word per request
  OwnedBlock messages_;  ///< staging: where messages are received; outlives the handle
  std::uint32_t words_key_ = 0;
  Limits limits_;
  QueuePairHandle handle_;
  QueuePairAddress address_;
  QueuePairAddress peer_;
  std::atomic<bool> connected_{false};

  PostLock mutex_;  ///< guards what follows
  std::atomic<std::uint64_t> posted_{0};
  std::uint64_t signaled_ = 0;
  std::atomic<std::uint64_t> lent_{0};  ///< the last one whose end a caller waits for
  std::atomic<bool> unasked_{false};    ///< a completion is wanted, but there was no room
  std::atomic<std::uint64_t> notified_{0};
  std::atomic<std::uint64_t> succeeded_{0};
  std::atomic<std::uint64_t> ended_{0};
  /// At the last kick().
  struct Progress {
    std::uint64_t ended = 0;
    std::uint64_t posted = 0;
  };
  Progress at_kick_;
  /// For Revival.
  struct Recovery {
    std::size_t queue = 0;                  ///< that it is bound to
    bool is_marked = false;                 ///< the request behind all others was posted
    std::atomic<std::uint64_t> flushed{0};  ///< the last request that failed
    std::atomic<bool> is_abandoned{false};
  };
  Recovery recovery_;

  // The completion queue's.
  bool sends_ended_ = false;
  struct Receives {
    std::atomic<std::uint64_t> seen{0};           ///< notifications that were handled
    std::uint32_t key = 0;                        ///< of their memory
    std::array<std::uint32_t, kReceives> used{};  ///< slots of receives to post again
    std::uint32_t used_count = 0;
    std::atomic<std::uint64_t> posted{0};
    std::atomic<std::uint64_t> reported{0};  ///< that the peer was told of; with the mutex held
    std::atomic<std::uint32_t> out{0};       ///< posted, and not completed

    /// One thread at a time writes it: no need for an atomic addition.
    void count_out(int more) noexcept {
      out.store(out.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(more),
                std::memory_order_release);
    }
  };
  Receives receives_;
};

}  // namespace weft::p2p::verbs
