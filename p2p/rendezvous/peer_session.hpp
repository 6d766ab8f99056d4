// What this rank and one other say to each other in a rendezvous, in both directions.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/rendezvous/offer_table.hpp"
#include "p2p/rendezvous/rendezvous_messages.hpp"
#include "p2p/rendezvous/request_groups.hpp"
#include "p2p/rendezvous/wire.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/rendezvous.hpp"

namespace weft::p2p::rendezvous {

/// What all sessions of a rendezvous add up to.
struct Totals {
  std::atomic<std::int64_t> offered{0};    ///< tensors not fetched yet
  std::atomic<std::int64_t> attention{0};  ///< things that need turns although no thread waits
  std::atomic<std::int64_t> held_up{0};    ///< sessions whose fabric took no more
};

/// A request as its caller holds it: an item, or why there is none, or what came of it.
struct Ticket {
  Item* item = nullptr;
  Status refused;
  std::optional<Result<Received>> outcome;

  bool done() const noexcept { return outcome || (item == nullptr ? !refused.ok() : item->done()); }
};

/// Messages travel through a slot in each direction; completions through the receiver's words.
/// Whoever is inside the rendezvous takes turns: a turn handles what has come and answers what can
/// be answered. Thread-safety: a SessionLock guards everything but what says otherwise; no turn
/// waits.
class PeerSession {
 public:
  static constexpr std::uint32_t kDepth = 64;     ///< messages under way in a direction
  static constexpr std::uint32_t kGroups = 64;    ///< request messages not wholly answered
  static constexpr std::size_t kMaxKeys = 65536;  ///< that a peer may name

  PeerSession(LocalRank& local, Mesh& mesh, SlotTable& slots, Peer& peer,
              const RendezvousSpec& spec, const std::string& shared_name, Totals& totals);
  /// The slots are let go; requires that nothing is under way.
  ~PeerSession();

  // Opening, in this order, on one thread.
  /// Makes the inbox; throws what expose throws.
  void expose();
  /// Progress thread: makes the peer know the memory that it will be told of.
  Status share() noexcept;
  /// Throws what attach throws.
  void attach(Deadline deadline);
  void greet() noexcept;
  /// The peer's greeting is here: it has attached too.
  bool met() const noexcept { return met_.load(std::memory_order_acquire); }

  // Without a turn, any thread.
  Peer& peer() const noexcept { return peer_; }
  /// Whether a turn would find something to do.
  bool wants_turn() const noexcept;
  /// Takes a turn unless another thread has one, which then looks again.
  void try_turn() noexcept;
  /// The peer will say no more: it is gone, or has closed its end; or this rank leaves.
  bool broken() const noexcept;
  /// A message that came by the control channel. Progress thread.
  void on_control(std::span<const std::byte> bytes);

  /// Holds the session. At its end, what came meanwhile is handled and waiters are woken.
  class SessionLock {
   public:
    explicit SessionLock(PeerSession& session) noexcept;
    ~SessionLock();
    SessionLock(const SessionLock&) = delete;
    SessionLock& operator=(const SessionLock&) = delete;

   private:
    PeerSession& session_;
  };

  // Within a turn.
  void work() noexcept;
  /// Ok, or why nothing can be exchanged any more.
  Status usable(const char* operation, const KeyStep& at) const;

  struct Offered {
    OfferTable::Outcome outcome = OfferTable::Outcome::full;
    Status status;
  };
  Offered offer(const KeyStep& at, Content& content) noexcept;
  const OfferTable& offers() const noexcept { return offers_; }
  /// A copy in this rank's arena, counted.
  Tensor clone(const Tensor& tensor);
  void count_copied(std::size_t bytes) noexcept { sent_.bytes_copied.add(bytes); }

  /// Asks for wanted[next] and those after it as long as there are free groups; advances `next`.
  void ask(std::span<const KeyStep> wanted, std::span<Ticket> tickets, std::size_t& next) noexcept;
  /// Asks for as many as it can, letting go of what those before it have got.
  void ask_on(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
              std::size_t& next) noexcept;
  /// The outcome of a request; one that is not done is left behind.
  Result<Received> finish(const KeyStep& at, Ticket& ticket) noexcept;
  Status cancel(const KeyStep& at) noexcept;
  /// No message is answered by an offer any more; requests under way are cancelled.
  void begin_close() noexcept;
  /// This rank leaves: not one more byte is written to the peer.
  void stop() noexcept { stopped_.store(true); }
  /// Whether memory is still lent to the peer's puts, or to this rank's.
  bool has_lent() const noexcept { return requests_.live() != 0 || !under_way_.empty(); }
  /// Whether a tensor that was offered is still read where the caller has it.
  bool lent(const KeyStep& at) const noexcept;
  /// Tensors offered that were not fetched yet.
  std::size_t unfetched() const noexcept { return offers_.offers() + under_way_.size(); }
  /// Once: offers were dropped because the receiver was gone.
  bool take_lost() noexcept { return std::exchange(lost_, false); }

  void report(std::vector<EdgeReport>& edges) const;
  Status failure(Code code, const char* operation, const KeyStep& at, std::string message,
                 std::string hint) const;

 private:
  // Messages (session.cpp).
  std::span<std::byte> draft() noexcept;
  void post(std::span<const std::byte> message) noexcept;
  void post_by_control(std::span<const std::byte> message, std::uint32_t chunk) noexcept;
  bool put_message(const Tensor& message) noexcept;
  void flush() noexcept;
  void read_inbox() noexcept;
  void read_control() noexcept;
  void handle(std::span<const std::byte> bytes) noexcept;
  void on_hello(const Hello& hello) noexcept;
  void end() noexcept;
  void settle() noexcept;
  void observe(RendezvousMessage message, bool sent, const KeyStep& at, bool by_name = false,
               bool with_metadata = false) const;
  void complain(const char* what) noexcept;

  // As the sender (answers.cpp).
  void on_ask(const RequestId& id, const Ask& ask) noexcept;
  void on_ask_again(const RequestId& id, const AskAgain& ask) noexcept;
  void on_cancel(const RequestId& id) noexcept;
  void answer(Match match) noexcept;
  void move(Match match) noexcept;
  void answer_error(const RequestId& id, const KeyStep& at, Code code,
                    std::string_view text) noexcept;
  std::uint32_t key_of(const Ask& ask);
  std::uint32_t number_of(std::string_view name);
  Status transfer(Match& match) noexcept;
  /// Lets go of the tensors whose puts have ended.
  void land() noexcept;
  KeyStep at(const Match& match) const noexcept;

  // As the receiver (requests.cpp).
  bool ask_in_one_message(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                          std::size_t& next);
  bool take_known(const KeyStep& at, Ticket& ticket) noexcept;
  Result<Tensor> make_room(const Metadata& metadata) noexcept;
  MemoryRef place_of(const Tensor& result) const noexcept;
  bool peer_knows(std::uint32_t chunk) const noexcept { return known_chunks_.contains(chunk); }
  void learn_chunk(const Item& item) noexcept;
  void on_metadata(const RequestId& id, const MetadataAnswer& answer) noexcept;
  void on_error(const RequestId& id, const ErrorAnswer& answer) noexcept;
  void send_cancel(Item& item) noexcept;
  void reap() noexcept;
  KeyStep at(const Item& item) const noexcept;

  LocalRank& local_;
  Mesh& mesh_;
  SlotTable& slots_;
  Peer& peer_;
  const RendezvousSpec& spec_;
  const std::string& shared_name_;
  Totals& totals_;

  std::mutex mutex_;
  std::atomic<bool> again_{false};  ///< somebody found the session held
  std::atomic<bool> needs_turn_{false};
  std::atomic<bool> open_{false};
  std::atomic<bool> met_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> ended_{false};
  bool closing_ = false;
  bool changed_ = false;  ///< other threads may wait for what this turn brought about
  bool lost_ = false;
  bool complained_ = false;

  std::shared_ptr<detail::SlotState> inbox_;
  std::shared_ptr<detail::RemoteSlotState> outbox_;
  std::atomic<const std::atomic<std::uint64_t>*> inbox_word_{nullptr};
  std::atomic<std::uint64_t> inbox_wanted_{0};
  std::shared_ptr<Storage> drafts_;  ///< a ring of messages: a put that is pending reads its own
  const std::uint32_t drafts_chunk_;
  std::size_t next_draft_ = 0;
  std::vector<Tensor> draft_tensors_;
  bool puts_pending_ = false;
  std::deque<std::vector<std::byte>> unsent_;
  std::mutex control_mutex_;
  std::deque<std::vector<std::byte>> by_control_;

  // As the sender.
  struct Side {  ///< one of the receiver's groups
    std::uint32_t generation = 0;
    std::uint32_t asked = 0;
  };
  OfferTable offers_;
  std::vector<std::uint32_t> key_of_index_;
  std::vector<Side> sides_;
  RemoteMemory words_there_;
  std::uint32_t remote_notification_id_ = 0;
  std::deque<Match> unmoved_;  ///< the fabric's queue was full
  struct UnderWay {
    std::uint64_t posted = 0;
    Match match;
  };
  std::vector<UnderWay> under_way_;  ///< tensors that the fabric still reads, the oldest first
  static constexpr std::uint32_t kCopyDepth = 4;
  EdgeCounters sent_;

  // As the receiver.
  OwnedBlock words_;
  std::optional<std::uint32_t> notification_id_;  ///< what the channel calls the first word
  RequestGroups requests_;
  std::set<std::uint32_t> known_chunks_;
  std::size_t left_behind_ = 0;  ///< requests that no thread waits for
  std::size_t cancelled_ = 0;
  EdgeCounters received_;

  std::int64_t offered_counted_ = 0;
  std::int64_t attention_counted_ = 0;
  std::int64_t held_up_counted_ = 0;
};

}  // namespace weft::p2p::rendezvous
