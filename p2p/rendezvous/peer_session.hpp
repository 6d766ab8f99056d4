// The session of a rendezvous between this rank and one peer, in both directions.
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

/// Sums over all sessions of a rendezvous.
struct Totals {
  std::atomic<std::int64_t> offered{0};    ///< tensors not fetched yet
  std::atomic<std::int64_t> attention{0};  ///< items that need turns without a waiting thread
  std::atomic<std::int64_t> held_up{0};    ///< sessions with a full fabric or puts under way
};

/// A caller's request: an item, the reason why there is none, or the outcome.
struct Ticket {
  Item* item = nullptr;
  Status refused;
  std::optional<Result<Received>> outcome;

  bool done() const noexcept { return outcome || (item == nullptr ? !refused.ok() : item->done()); }
};

/// Messages travel through one slot in each direction; completions through the receiver's words.
/// Threads inside the rendezvous take turns: a turn handles arrived messages and answers what can
/// be answered, and never waits. A SessionLock guards everything, except where noted.
class PeerSession {
 public:
  static constexpr std::uint32_t kDepth = 64;   ///< most messages under way per direction
  static constexpr std::uint32_t kGroups = 64;  ///< most request messages without all their answers
  static constexpr std::size_t kMaxKeys = 65536;  ///< most keys that a peer may name

  PeerSession(LocalRank& local, Mesh& mesh, SlotTable& slots, Peer& peer,
              const RendezvousSpec& spec, const std::string& shared_name, Totals& totals);
  /// Releases the slots. Requires that no request is live.
  ~PeerSession();

  // Opening: call in this order, on one thread.
  /// Creates the inbox slot. Throws what SlotTable::expose() throws.
  void expose();
  /// Makes the memory that later messages refer to known to the peer. Progress thread.
  Status share() noexcept;
  /// Attaches to the peer's inbox. Throws what SlotTable::attach() throws.
  void attach(Deadline deadline);
  void greet() noexcept;
  /// True once the peer's hello has arrived, which means that the peer has attached too.
  bool met() const noexcept { return met_.load(std::memory_order_acquire); }

  // Any thread, without holding a SessionLock.
  Peer& peer() const noexcept { return peer_; }
  /// True if a turn would find something to do.
  bool wants_turn() const noexcept;
  /// Takes a turn unless another thread holds the session; that thread then takes another one.
  void try_turn() noexcept;
  /// True if nothing more comes from the peer: it is gone or has closed its end, or this rank
  /// leaves.
  bool broken() const noexcept;
  /// Queues a message that came on the control channel. Progress thread.
  void on_control(std::span<const std::byte> bytes);

  /// Holds the session. The destructor handles what arrived meanwhile and wakes waiting threads.
  class SessionLock {
   public:
    explicit SessionLock(PeerSession& session) noexcept;
    ~SessionLock();
    SessionLock(const SessionLock&) = delete;
    SessionLock& operator=(const SessionLock&) = delete;

   private:
    PeerSession& session_;
  };

  // With a SessionLock held.
  void work() noexcept;
  /// ok, or the reason why nothing can be exchanged any more.
  Status usable(const char* operation, const KeyStep& at) const;

  struct Offered {
    OfferTable::Outcome outcome = OfferTable::Outcome::full;
    Status status;
  };
  Offered offer(const KeyStep& at, Content& content) noexcept;
  const OfferTable& offers() const noexcept { return offers_; }
  /// A copy of `tensor` in this rank's arena; counts the copied bytes.
  Tensor clone(const Tensor& tensor);
  void count_copied(std::size_t bytes) noexcept { sent_.bytes_copied.add(bytes); }

  /// Requests wanted[next] and the following ones while groups are free; advances `next`.
  void ask(std::span<const KeyStep> wanted, std::span<Ticket> tickets, std::size_t& next) noexcept;
  /// Like ask(), but if groups run out, finishes tickets that are done to free theirs.
  void ask_on(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
              std::size_t& next) noexcept;
  /// The outcome of a request. A request that is not done is left behind: it stays, without a
  /// waiting thread.
  Result<Received> finish(const KeyStep& at, Ticket& ticket) noexcept;
  Status cancel(const KeyStep& at) noexcept;
  /// Stops matching offers, and cancels the requests under way.
  void begin_close() noexcept;
  /// Called when this rank leaves: nothing more is written to the peer.
  void stop() noexcept { stopped_.store(true); }
  /// True while memory is lent to the peer's puts or to this rank's.
  bool has_lent() const noexcept { return requests_.live() != 0 || !under_way_.empty(); }
  /// True while the caller's own tensor of that key and step is still read.
  bool lent(const KeyStep& at) const noexcept;
  /// Number of offered tensors that have not been fetched.
  std::size_t unfetched() const noexcept { return offers_.offers() + under_way_.size(); }
  /// True once after offers were dropped because the receiver was gone.
  bool take_lost() noexcept { return std::exchange(lost_, false); }

  void report(std::vector<EdgeReport>& edges) const;
  Status failure(Code code, const char* operation, const KeyStep& at, std::string message,
                 std::string hint) const;

 private:
  // Messages (peer_session.cpp).
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
  /// Releases the tensors whose puts have ended.
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
  std::atomic<bool> again_{false};  ///< another thread found the session held
  std::atomic<bool> needs_turn_{false};
  std::atomic<bool> open_{false};
  std::atomic<bool> met_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> ended_{false};
  bool closing_ = false;
  bool changed_ = false;  ///< other threads may wait for something this turn has changed
  bool lost_ = false;
  bool complained_ = false;

  std::shared_ptr<detail::PutOwner> inbox_;
  std::shared_ptr<detail::PutWriter> outbox_;
  std::atomic<const std::atomic<std::uint64_t>*> inbox_word_{nullptr};
  std::atomic<std::uint64_t> inbox_wanted_{0};
  std::shared_ptr<Storage> drafts_;  ///< a ring of messages, which pending puts read
  const std::uint32_t drafts_chunk_;
  std::size_t next_draft_ = 0;
  std::vector<Tensor> draft_tensors_;
  bool puts_pending_ = false;
  std::deque<std::vector<std::byte>> unsent_;
  std::mutex control_mutex_;
  std::deque<std::vector<std::byte>> by_control_;

  // As the sender.
  struct Side {  ///< a receiver's request group
    std::uint32_t generation = 0;
    std::uint32_t asked = 0;
  };
  OfferTable offers_;
  std::vector<std::uint32_t> key_of_index_;
  std::vector<Side> sides_;
  RemoteMemory words_there_;
  std::uint32_t remote_notification_id_ = 0;
  std::deque<Match> unmoved_;  ///< matches to transfer once the fabric has room
  struct UnderWay {
    std::uint64_t posted = 0;
    Match match;
  };
  std::vector<UnderWay> under_way_;  ///< tensors that the fabric still reads, oldest first
  static constexpr std::uint32_t kCopyDepth = 4;
  EdgeCounters sent_;

  // As the receiver.
  OwnedBlock words_;
  std::optional<std::uint32_t> notification_id_;  ///< of the first word, on the channel
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
