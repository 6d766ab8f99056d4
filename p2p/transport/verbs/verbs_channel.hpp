// The path to one peer by queue pairs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "p2p/transport/channel.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/path_end.hpp"
#include "p2p/transport/remote_chunks.hpp"
#include "p2p/transport/verbs/failover.hpp"
#include "p2p/transport/verbs/immediate.hpp"
#include "p2p/transport/verbs/kept_puts.hpp"
#include "p2p/transport/verbs/message_head.hpp"
#include "p2p/transport/verbs/message_inbox.hpp"
#include "p2p/transport/verbs/queue_pair.hpp"
#include "p2p/transport/verbs/rails.hpp"
#include "p2p/transport/verbs/regions.hpp"
#include "p2p/transport/verbs/remote_keys.hpp"
#include "p2p/transport/verbs/stripe_table.hpp"
#include "p2p/transport/verbs/verbs_messages.hpp"
#include "p2p/transport/verbs/work_request_chain.hpp"
#include "p2p/transport/wireup/first_use.hpp"

namespace weft::p2p::verbs {

/// State that the fabric of a rank shares with all its channels.
struct VerbsRank {
  Rails& rails;
  LocalRank& local;
  /// Any thread: the path has failed, `why` in words.
  std::function<void(int peer, const Status& why)> path_failed;
  /// Any thread: the peer's end has refused a request, and nothing passes any more. The peer may be
  /// dying: the fabric calls fail() once it knows.
  std::function<void(int peer, const Status& why)> path_refused;
  /// Any thread: a control message of the peer has come; take it by take_messages().
  std::function<void(int peer)> has_message;
  FirstUse& first_use;
  /// Any thread: a link has something to be done by the progress thread (take_messages()).
  std::function<void(int peer)> tend;
};

/// A port of this rank and the peer's that its queue pairs lead to.
struct Link {
  Rail* rail = nullptr;
  VerbsAddress peer;
};

inline constexpr std::size_t kSendBuffers = 16;
inline constexpr std::size_t kSendBuffer = sizeof(MessageHead) + Channel::kMaxMessage;

/// Bytes that a channel of `queue_pairs` queue pairs of `depth` requests each keeps registered;
/// `links` of them are the first of their link.
std::uint64_t registered_bytes_of(std::uint64_t queue_pairs, std::uint64_t links,
                                  std::uint64_t depth) noexcept;

/// A RemoteMemory is an address in the peer's process and the key of its registration with the port
/// of the first link. Everything goes in order by the main link, the first at first, but for large
/// tensors, which all links carry together. If a link fails, the rest carry its share until it is
/// back; if it was the main one, another is from then on. The path ends with the last of them.
class VerbsChannel final : public Channel, public QueuePairEvents, private GetEngine {
 public:
  /// Takes next to nothing, and sends nothing, before there are queue pairs and they are open: what
  /// is to be sent waits. `rank` must outlive it.
  VerbsChannel(VerbsRank& rank, int peer, std::vector<Link> links);
  ~VerbsChannel() override;

  // Setting up, on the progress thread, in this order.
  /// Throws Error.
  void make_queue_pairs();
  QueuePairsMessage queue_pair_address() const;
  /// Sets the addresses of the peer's queue pairs. Throws Error(mismatch).
  void set_peer(const QueuePairsMessage& peer);
  /// Readies the queue pairs for the peer's. Throws Error.
  void connect();
  /// They were readied.
  void mark_connected() noexcept;
  std::vector<ibv_qp*> handles() const;
  /// Both ends are ready: what waited goes out.
  void open() noexcept;
  /// The ports of each link, the first for what is small, and how puts are made known, with the
  /// reason: "mlx5_0:1 to mlx5_2:1, mlx5_1:1 to mlx5_3:1; one WRITE_WITH_IMM a put".
  std::string text() const;
  bool uses(const Rail& rail) const noexcept;
  std::vector<RailReport> rails() const override;

  Status put(PutWork& work) noexcept override;
  std::optional<Status> poll_put(std::uint64_t posted) noexcept override;
  void get(Get& get) noexcept override;
  void put_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept override;
  void notify() noexcept override;
  void send(std::span<const std::byte> message) override;
  Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept override {
    return chunks_.resolve(ref);
  }
  bool export_region(std::uint32_t chunk) override;
  std::byte* map(RemoteMemory) noexcept override { return nullptr; }

  /// Progress thread: hands over the messages whose turn it is.
  void take_messages(const std::function<void(std::span<const std::byte>)>& take);
  /// Progress thread: tells the peer that adopted memory is gone, if the peer knew it.
  void unshare(std::uint32_t chunk);

  /// Any thread: nothing of the peer arrives any more, and every operation fails with `why`.
  void fail(Status why) noexcept;
  /// Posts what waits for room. Any thread that holds no lock of a queue pair.
  void flush() noexcept;
  /// Progress thread, a few times a second, and when a port's link is lost or back (Rail::is_up).
  void kick() noexcept;
  /// Whether everything posted or waiting has gone out and was received.
  bool is_idle() noexcept;

 private:
  enum class State : std::uint8_t { unopened, open, failed };
  using Pairs = std::vector<std::unique_ptr<QueuePair>>;
  // `posted` is a queue pair (from 1) and its request, or kAllPairs and a stripe.
  static constexpr unsigned kPairShift = 56;
  static constexpr std::uint64_t kAllPairs = 0xff;
  struct Word {
    RemoteMemory place;
    std::uint64_t value = 0;
    bool rings = false;
  };
  struct Payload;
  enum class Step : std::uint8_t { posted, no_room, failed };
  /// From this size on all queue pairs carry one tensor together.
  static constexpr std::size_t kStripeBytes = 1U << 20U;
  /// Whether a payload and a sequence word behind it fit in inline data.
  static bool fits_inline(std::size_t bytes, const QueuePair& pair) noexcept {
    return bytes_with_tail(bytes) <= pair.limits().max_inline;
  }
  std::string notify_mode_text() const;
  bool has_failed() const noexcept {
    return state_.load(std::memory_order_acquire) == State::failed;
  }
  bool is_open() const noexcept { return state_.load(std::memory_order_acquire) == State::open; }

  Rail& near() const noexcept { return *links_.front().rail; }
  Link& link_of(std::size_t pair) noexcept { return links_[pair / per_link_]; }
  /// The queue pair of a put, by its place among a link's.
  std::size_t place_of(const PutWork& work) const noexcept {
    return work.queue_pair < 0 ? work.notification_id % per_link_
                               : static_cast<std::size_t>(work.queue_pair);
  }

  // striping.cpp
  /// Keys of the payload, and of the place it goes to, by each link.
  struct LinkKeys;
  struct Parts;
  /// The put waits for a link to settle.
  Status put_off() noexcept;
  Status put_in_pieces(PutWork& work, Payload& payload) noexcept;
  /// One sending for each queue pair that speaks; their number.
  std::size_t cut(PutWork& work, const Payload& payload, const LinkKeys& keys,
                  Parts& parts) noexcept;
  /// Registers the chunk with the other ports. False: tensors for it come by the first link alone.
  bool far_keys_of(std::uint32_t chunk, RemoteKeys::Keys& keys) noexcept;
  /// The links that carry it, by bit: those that have both keys. 0: the path has failed.
  std::uint32_t keys_by_link(const PutWork& work, Payload& payload, LinkKeys& keys) noexcept;
  /// A tensor's memory can't be registered with the other ports: told once.
  void go_alone(const Status& why) noexcept;
  std::uint64_t rate_of_pair(std::size_t pair) const noexcept;

  // put.cpp
  bool reaches_gpu(const Tensor& tensor, std::string* why_not) noexcept override;
  std::size_t most_with_tail() const noexcept;
  /// 0: it is no adopted memory.
  std::uint32_t adopted_chunk_of(const Tensor* tensor) const noexcept;
  Result<std::uint32_t> key_of(const Tensor& tensor, Payload& payload) noexcept;
  /// Whether the put is one small request, which takes its bytes along.
  bool goes_at_once(const PutWork& work) const noexcept;
  Status put_inline(PutWork& work) noexcept;
  /// All others, from where they lie.
  Status put_tensor(PutWork& work) noexcept;
  Status collect(PutWork& work, Payload& payload) noexcept;
  Status pack(PutWork& work, Payload& payload) noexcept;
  bool takes_tail(const PutWork& work, const Payload& payload) const noexcept;
  Status put_whole(PutWork& work, const Payload& payload, std::size_t chosen) noexcept;
  std::uint32_t requests_for(PayloadCursor rest, const QueuePair& pair) const noexcept;
  WorkRequestChain chain_of(const QueuePair& pair) const noexcept;
  /// The next chain of it.
  Step post_next(Sending& sending) noexcept;
  /// Adds what follows the payload, with the queue pair's lock held.
  void finish(const Sending& sending, WorkRequestChain& chain) noexcept;
  Status give_up(int error) noexcept;

  // long_puts.cpp
  /// Some of it goes out now, the rest as there is room, a little at a time. By all links but
  /// `silent`; `exhausted` if it is others that carry nothing now, or
  /// another link than `main` is.
  Status put_by_and_by(PutWork& work, std::span<Sending> sendings, std::uint32_t silent,
                       std::size_t main) noexcept;
  /// Whether the tensor before, of the same word, has not been posted to its end.
  bool is_being_put(std::uint32_t notification_id) noexcept;
  // With the outbox's lock held.
  LongPut* room_for_long_put(std::span<const Sending> sendings) noexcept;
  void go_on_with_long_puts() noexcept;
  void go_on(LongPut& put) noexcept;
  Status full() const noexcept;
  Status broken(const char* operation) const { return end_.refusal(operation); }

  // outbox.cpp: false when there is no room now.
  bool post_notification(std::size_t at, std::uint32_t immediate) noexcept;
  bool post_ack() noexcept;
  bool post_word(const Word& word) noexcept;
  bool post_message(std::span<const std::byte> message) noexcept;
  bool post_link(const LinkMessage& message) noexcept;
  /// By the main link, past what goes in order.
  bool post_at_once(const LinkMessage& message) noexcept;
  /// `share`: its bytes, which went before.
  bool post_send(MessageHead::Kind kind, std::span<const std::byte> message,
                 const Share* share = nullptr) noexcept;
  /// The bytes of it, with its head.
  std::size_t fill_buffer(std::byte* buffer, MessageHead::Kind kind,
                          std::span<const std::byte> message) const noexcept;
  /// A place for a message. Null: none is free.
  std::byte* free_send_buffer() noexcept;
  /// Sends the bytes that lie there, with the queue pair's lock held.
  bool post_buffer(std::size_t at, std::size_t bytes) noexcept;
  /// The same: `word` of the peer's is written, with or without an immediate.
  bool write_word(std::size_t at, const RemoteMemory& word, std::uint64_t value,
                  bool with_immediate = false) noexcept;
  bool fence_others() noexcept;

  void notified(int queue_pair, std::uint32_t immediate) noexcept override;
  void message(int queue_pair, std::span<const std::byte> bytes) noexcept override;
  void failed(int queue_pair, const ibv_wc& completion) noexcept override;
  void on_room() noexcept override;

  // arrivals.cpp
  void take(int queue_pair, std::uint32_t immediate, std::uint32_t speaks_for) noexcept;
  /// A piece; its notification counts for the links in `speaks_for`, too.
  NotificationTable::Arrival arrived(const Immediate& put, int queue_pair,
                                     std::uint32_t speaks_for) noexcept;
  /// Makes payloads that came by that queue pair visible to the GPU that has them. False: the path
  /// has ended, as that can't be done.
  bool flush_gpu(std::size_t queue_pair, stats::Counter& flushes) noexcept;
  void count_ordered(int queue_pair) noexcept;
  void on_link_message(int queue_pair, std::span<const std::byte> bytes) noexcept;
  bool count_all(const LinkMessage& message) noexcept;
  /// Ends the path: the peer has told nonsense.
  void refuse_words(const LinkMessage& message) noexcept;

  // main_link.cpp: what goes in order, and by another link once the main one is lost.
  static constexpr std::size_t kNoPair = ~std::size_t{0};
  /// The first queue pair of the main link; kNoPair: what it carried is being sent again.
  std::size_t main_pair() const noexcept { return failover_.base.load(std::memory_order_acquire); }
  Status put_in_order(PutWork& work) noexcept;
  /// Translates its key. False: the path has failed, as the peer's memory is not known there.
  bool reach_by(std::size_t link, RemoteMemory& memory) noexcept;
  // With the queue pair's lock held: logs what is about to be posted, or was.
  bool log_put(const Sending& sending) noexcept;
  void add_put(const Sending& sending) noexcept;
  void log_ack() noexcept;
  bool log_message(std::span<const std::byte> bytes, const Share* share) noexcept;
  void prepare_failover();
  OrderedLog& ordered_of(std::size_t pair) noexcept { return failover_.ordered[pair % per_link_]; }
  // With the outbox's lock held.
  bool move_main(std::size_t lost) noexcept;
  bool say_down_again() noexcept;
  bool resend_ordered() noexcept;
  bool begin_to_resend() noexcept;
  bool resend_item(std::size_t place) noexcept;
  bool resend_words(std::uint64_t before) noexcept;
  bool prepare_again(const OrderedItem& item, Resending& resending, std::size_t pair) noexcept;
  /// The local key of memory that a put lends, by a link.
  bool key_by(std::size_t link, MemoryPiece& piece, std::uint64_t posted) noexcept;
  bool move_long_puts() noexcept;
  void resolve(std::size_t link) noexcept;

  // failover.cpp: a link is lost.
  bool is_silent(std::size_t pair) const noexcept {
    return (failover_.silent.load(std::memory_order_acquire) >> (pair / per_link_) & 1U) != 0;
  }
  bool is_unresolved(std::size_t link) const noexcept {
    return (failover_.unresolved.load(std::memory_order_acquire) >> link & 1U) != 0;
  }
  /// False: there is no other.
  bool lose(std::size_t link, const Status& why) noexcept;
  void lose_or_end(std::size_t link, const Status& why) noexcept;
  /// Whether a failed request means that its link is lost, and the path goes on.
  bool is_lost_by(int queue_pair, const ibv_wc& completion) noexcept;
  // With the outbox's lock held.
  ShareLog& log_of(std::size_t pair) noexcept { return failover_.logs[pair]; }
  void note_share(const LongPut& put, const Sending& sending) noexcept;
  void hand_over_unposted(std::size_t link) noexcept;
  void go_on_with_links() noexcept;
  void go_on_with(std::size_t link) noexcept;
  /// Each goes from one phase to the next; false: not yet.
  bool tell_down(std::size_t link) noexcept;
  bool begin_to_settle(std::size_t link) noexcept;
  /// It is lost.
  void hold(std::size_t pair, Share& share) noexcept;
  bool send_again(std::size_t link) noexcept;
  bool send_share_again(LinkRecord& record, std::size_t pair, Share& share) noexcept;
  bool settle(std::size_t link) noexcept;
  bool drop_lost() noexcept;

  // link_return.cpp: and comes back.
  bool prove(std::size_t link) noexcept;
  bool resume(std::size_t link) noexcept;
  // Progress thread.
  void tend_links() noexcept;
  void follow_port(std::size_t link) noexcept;
  void follow_peer(std::size_t link) noexcept;
  void tell(std::size_t link) noexcept;
  bool begin_anew(std::size_t link) noexcept;
  void restart(std::size_t link) noexcept;
  void meet_again(std::size_t link) noexcept;
  /// With the outbox's lock held. Why its queue pairs can't be readied, or ok.
  Status ready(std::size_t link) noexcept;
  void check_patience(std::size_t link) noexcept;

  // outcome.cpp
  template <typename Ask>
  bool all_pairs(std::uint64_t posted, const Ask& ask) noexcept;
  bool has_ended(std::uint64_t posted) noexcept;
  bool has_succeeded(std::uint64_t posted) noexcept;

  void out_of_memory(const char* what) noexcept;
  /// Progress thread: a message that is the channel's own. False: it is for a layer above.
  bool handle(std::span<const std::byte> message);

  // gets.cpp
  std::optional<Status> poll_get(Get& get) noexcept override;
  bool cancel_get(Get& get) noexcept override;
  void abort_get(Get& get) noexcept override;
  static constexpr std::uint32_t kReadsAtOnce = 8;
  /// Get::left: a queue pair, and from this bit on how often its link was lost before.
  static constexpr unsigned kGetShift = 8;
  static constexpr std::uint32_t kGetLosses = ~std::uint32_t{0} >> kGetShift;
  static std::size_t pair_of(const Get& get) noexcept { return get.left & ((1U << kGetShift) - 1); }
  bool choose_pair(Get& get) noexcept;
  bool is_lost(const Get& get) const noexcept;
  bool begin_again(Get& get) noexcept;
  struct Reads;
  void post_reads(Get& get) noexcept;
  void fail_read(const Get& get) noexcept;
  bool gather_reads(Get& get, std::size_t end, Reads& reads) noexcept;

  VerbsRank& rank_;
  const int peer_;
  std::vector<Link> links_;  ///< the first for what is small
  std::size_t per_link_;     ///< queue pairs; those of the first link come first
  const bool several_;       ///< links
  NotifyMode notify_mode_ =
      NotifyMode::immediate;  ///< tail: for what has room for it, else the next method
  bool immediates_ = true;    ///< both devices have them
  NotificationTable expected_;

  RemoteChunks chunks_{peer_};
  RemoteKeys far_keys_;  ///< of the peer's chunks, by the other links
  std::atomic<bool> told_alone_{false};
  std::set<std::uint32_t> shared_;  ///< the progress thread's: chunks that the peer knows

  /// Sends that wait for room; its lock is taken before a queue pair's.
  struct Outbox {
    std::mutex mutex;
    std::deque<Word> words;
    std::deque<std::vector<std::byte>> messages;
    bool ack = false;
    std::atomic<bool> waits{false};
    OwnedBlock send_buffers;
    std::array<std::uint32_t, kMostRails> send_keys{};    ///< by link
    std::array<std::uint64_t, kSendBuffers> send_ends{};  ///< by buffer: the request that frees it
    std::array<std::size_t, kSendBuffers> send_pairs{};   ///< and its queue pair
    std::size_t next_buffer = 0;
    std::array<std::uint64_t, NotificationTable::kMaxQueuePairs> fenced{};
  };
  struct LongPuts {
    static constexpr std::size_t kMost = 4;
    std::array<std::unique_ptr<LongPut>, kMost> places;  ///< guarded by the outbox; made when used
    std::atomic<std::uint32_t> count{0};                 ///< those under way
  };
  mutable Outbox outbox_;
  Failover failover_;
  MessageInbox inbox_;
  LongPuts long_puts_;
  StripeTable stripes_;
  KeptPuts kept_;

  PathEnd end_{peer_};
  bool refused_ = false;  ///< path_refused() was called
  std::atomic<State> state_{State::unopened};
  std::atomic<std::uint32_t> next_read_{0};

  Pairs pairs_;  ///< the first to go
};

}  // namespace weft::p2p::verbs
