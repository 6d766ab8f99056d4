// The other end of a slot: a put slot's writer, or a published slot's reader.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/awaited.hpp"
#include "p2p/slot/contract.hpp"
#include "p2p/slot/in_flight_puts.hpp"
#include "p2p/slot/published_words.hpp"
#include "p2p/slot/slot_access.hpp"
#include "p2p/slot/slot_line.hpp"
#include "p2p/slot/slot_messages.hpp"
#include "p2p/slot/use_gate.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {
class SlotTable;
}

namespace weft::detail {

class RemoteSlotState {
 public:
  static constexpr std::size_t kMaxPending = 64;

  /// `asked`: what the caller expects; with take_declared only its name and writer count.
  RemoteSlotState(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table, p2p::Peer& owner,
                  p2p::Contract asked, bool take_declared, std::uint64_t id);

  // The application's thread.
  enum class Attach : std::uint8_t { asked, granted, refused, withdrawn };
  Attach attach_state() const noexcept { return attach_.load(std::memory_order_acquire); }
  /// Requires attach_state() == refused.
  const Status& refusal() const noexcept { return refusal_; }
  /// Whether the slot had been closed before it was asked for. It may be exposed again.
  bool was_asked_too_late() const noexcept { return asked_too_late_.load(); }

  /// Behaviour of a put when the pending queue is full although there is a credit.
  enum class Crowded : std::uint8_t { wait, refuse };
  Request put(const Tensor& tensor, Until until, Crowded crowded = Crowded::wait) noexcept;
  Request put(std::span<const Tensor> parts, Until until) noexcept;
  /// Puts only the first elements of the next buffer. For a slot of fixed shape without tails
  /// (Notify::always) whose ends know how much comes. The source is dense.
  Request put_front(const Tensor& tensor) noexcept;
  /// Whether a put would not be pending: there is a credit, or none will come any more.
  bool may_put() noexcept;
  /// Whether the put with this ticket has ended; moves pending puts that have got a credit.
  bool put_ended(std::uint64_t ticket) noexcept;
  /// Moves what can be moved. Returns whether puts are still pending.
  bool move_pending() noexcept;
  Status put_outcome(std::uint64_t ticket) noexcept;
  Status wait_put(std::uint64_t ticket, Deadline deadline) noexcept;
  /// `ended`: false when the operation can't be ended and lives on.
  Status cancel_put(std::uint64_t ticket, bool& ended) noexcept;

  /// The world goes: adopted memory that a live owner may still read is never given back, and what
  /// is under way is waited for.
  void abandon() noexcept;
  /// This end goes: what is still pending will not be put.
  void drop_pending() noexcept;
  void show_closing() noexcept { row_.set_state(stats::EdgeState::closing); }

  Result<Arrival> view(Deadline deadline) noexcept;
  Status get(std::span<const SlotRun> runs, Deadline deadline) noexcept;
  Status get(const Tensor& into, Deadline deadline) noexcept;
  void release(std::uint64_t version) noexcept;
  bool ready() const noexcept;
  void see_again() noexcept;
  bool broken() const noexcept;
  void before_wait() const noexcept {}
  /// The version that a wait for a newer one lacks.
  p2p::Awaited awaited() const;
  /// The event that the put with this ticket waits for.
  p2p::Awaited awaited_put(std::uint64_t ticket);
  int queue_pairs() const noexcept { return owner_.channel->capabilities().queue_pairs.load(); }
  void use_queue_pair(int index);
  void also_needs(std::span<const int> ranks, Needed needed) {
    mesh_.check_ranks(ranks, "also_needs");
    const std::lock_guard lock(pending_mutex_);  // the progress thread names the culprit of a put
    needs_.assign(ranks.begin(), ranks.end());
    needed_ = needed;
  }

  // The progress thread.
  p2p::AttachMessage attach_message() const noexcept;
  std::uint32_t credit_chunk() const noexcept { return credit_block_.block().chunk; }
  /// Takes what the owner granted; a grant that makes no sense becomes a refusal.
  void granted(const p2p::AttachedMessage& message);
  void refused(Status why);
  void asked_too_late() noexcept { asked_too_late_.store(true); }
  /// The caller has given up: a grant that comes now is not taken.
  void withdraw() noexcept { attach_.store(Attach::withdrawn, std::memory_order_release); }
  /// This end is gone and is kept only until the owner has answered.
  bool leaving() const noexcept { return leaving_; }
  void start_leaving() noexcept { leaving_ = true; }
  /// Nothing else keeps this end, which may go once no put is under way.
  bool may_go() const noexcept { return may_go_; }
  void release_when_completed() noexcept { may_go_ = true; }
  /// Whether no put is under way. Any thread, once the application's has let go of this end.
  bool has_completed() noexcept;
  /// The owner has closed the slot: agrees, at once or when the last use ends.
  void owner_closed();
  /// The message for the owner when this end goes; empty if the owner has closed already.
  p2p::DetachMessage detach_message() const noexcept;
  bool owner_has_closed() const noexcept { return gate_.is_shut(); }
  /// Moves pending puts that have a credit. Returns whether some are still pending.
  bool serve_pending() noexcept;

  const p2p::Contract& contract() const noexcept { return spec_; }
  p2p::Peer& owner() const noexcept { return owner_; }
  std::uint64_t id() const noexcept { return id_; }
  bool forked() const noexcept { return local_.forked(); }
  /// Before saying that nothing has come.
  void poll_arrivals() const noexcept { local_.waiter.poll(); }
  Status fork_refusal(const char* operation) const noexcept {
    return local_.fork_refusal(operation, spec_.name);
  }
  p2p::SlotTable& table() const noexcept { return table_; }
  EdgeReport report() const;

 private:
  PutWriter& self() noexcept;
  struct Pending {
    Tensor tensor{};
    std::vector<Tensor> parts{};  ///< of a gathered put, instead of the tensor
    std::uint64_t ticket = 0;
    std::uint64_t sequence = 0;  ///< dynamic: once it was announced
    Until until = Until::reusable;
    bool cancelled = false;
    Status outcome{};  ///< kept until the place is taken again, kMaxPending puts later
  };
  struct Lent {  ///< what the owner of a dynamic slot has not read yet
    Tensor tensor;
    p2p::OwnedBlock packed;  ///< where the tensor could not be read in place
  };
  /// A put on its way to the channel. Handed on by value, so that the common put keeps it in
  /// registers.
  struct Moving {
    std::span<const Tensor> parts;
    Until until = Until::reusable;
    std::uint64_t ticket = 0;  ///< 0: it has none yet
    bool full = false;         ///< answer: the channel takes no more, and took nothing
    p2p::InFlightPut* put_in_flight = nullptr;  ///< answer: it is under way
    bool lent = false;                          ///< answer: and the source with it
  };

  std::atomic<std::uint64_t>& credit_word() const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(credit_block_.data());
  }
  [[gnu::always_inline]] inline bool has_credit() noexcept;
  Status usable(const char* operation = "use") const noexcept;
  [[gnu::always_inline]] inline Status move(Moving& moving) noexcept;
  /// The channel has taken a put and goes on with it.
  [[gnu::cold]] Moving start_put(Moving moving, const p2p::PutWork& work) noexcept;
  /// The application's put is under way: its request says when it has ended.
  [[gnu::cold]] void follow(Moving moving, Request& request) noexcept;
  /// Whether as many puts are pending as may be.
  bool is_crowded() const noexcept;
  /// There are, and there is a credit: the fabric is busy, which passes.
  [[gnu::cold]] void wait_for_room() noexcept;
  /// Whether a put that has begun is still under way.
  bool is_flying(std::uint64_t ticket) noexcept;
  p2p::DynamicRecord& record_of(std::uint64_t buffer) const noexcept {
    return reinterpret_cast<p2p::DynamicRecord*>(records_.data())[buffer];
  }
  bool dynamic() const noexcept { return spec_.placement == Placement::dynamic; }
  /// Whether the tensor's bytes can be the fabric's source as they lie.
  [[gnu::always_inline]] bool reachable(const Tensor& tensor) const noexcept {
    if (tensor.arena() == local_.data.get()) [[likely]]
      return true;
    return reachable_outside(tensor);
  }
  /// The same for one that the world did not allocate.
  bool reachable_outside(const Tensor& tensor) const noexcept;
  Status gather(Moving moving, p2p::PutWork& work) noexcept;
  /// A dynamic put moves a record of where the tensor lies.
  Status announce(Moving moving, p2p::PutWork& work) noexcept;
  Status make_pack() noexcept;
  Status lend(const Tensor& tensor, p2p::DynamicRecord& record) noexcept;
  void take_back_lent() noexcept;
  void say_staged(const char* why) noexcept;
  Status wrong_put(std::string_view what) const;
  Status overrun() const;
  Request enqueue(Pending pending, Crowded crowded) noexcept;
  bool read_by_owner(std::uint64_t ticket) noexcept;
  /// The same, under pending_mutex_.
  bool is_read(std::uint64_t ticket) noexcept;
  bool drain() noexcept;
  void fail_pending(const Status& why) noexcept;
  void ask_for_credit(std::uint64_t ticket) noexcept;
  Status outcome_of(std::uint64_t ticket) const noexcept;
  /// Whether the put has left this rank, and only its end has not come. Requires pending_mutex_.
  bool is_on_its_way(std::uint64_t ticket) const noexcept {
    return !dynamic() && done_ticket_.load(std::memory_order_relaxed) >= ticket;
  }
  /// The event that an unfinished put waits for. Requires pending_mutex_.
  p2p::Awaited late_put(std::uint64_t ticket) const;
  Status in_flight_failure(const Status& why) const noexcept;
  Status failure(Code code, const char* operation, std::string message, std::string hint) const;
  Status peer_failure(const char* operation) const;

  struct Held {  ///< a version viewed, or being got, and not let go
    p2p::Newest version;
    p2p::OwnedBlock block;           ///< where the owner's memory can't be loaded from
    std::unique_ptr<Tensor> tensor;  ///< over the block
  };
  /// Whether readers keep the owner from overwriting what they read: by pins where the owner's
  /// memory is loaded from. Otherwise a version is read and then proved to have been whole.
  bool pins() const noexcept { return published_words_ && spec_.flow == Flow::credits; }
  void begin_reading(const p2p::AttachedMessage& message, p2p::RemoteMemory reader_words);
  p2p::Newest newest() const noexcept;
  bool pin(p2p::Newest version) noexcept;
  void unpin(std::uint64_t buffer) noexcept;
  Result<p2p::Newest> hold_newest(const char* operation, Deadline deadline) noexcept;
  /// Requires pending_mutex_.
  void set_pending(std::uint32_t count) noexcept {
    pending_count_.store(count, std::memory_order_release);
    row_.pending().store(count, std::memory_order_relaxed);
  }
  stats::WaitAbout about(stats::Operation operation, std::uint64_t sequence) const noexcept {
    return {.operation = operation, .peer = owner_.rank, .slot = id_, .sequence = sequence};
  }
  Status no_newer_version(const char* operation, p2p::WaitEnd end) const;
  Status fetch(Held& held, Deadline deadline) noexcept;
  Status get_runs(std::span<const SlotRun> runs, const Tensor* into, Deadline deadline) noexcept;
  /// `into`: a handle of the runs' memory, if there is one.
  Status read(Held& held, std::span<const SlotRun> runs, const Tensor* into,
              Deadline deadline) noexcept;
  /// The owner's host does not answer in time: what a NIC may still write stays lent.
  Status unanswered(Held& held, const Tensor* into) noexcept;
  /// Whether the fabric can read into memory of this rank.
  bool lands(const std::byte* to, std::size_t bytes) const noexcept {
    return owner_.channel->capabilities().copies || local_.reachable(to, bytes);
  }
  std::byte* scratch_word(std::size_t index) const noexcept {
    return reading_->words.data() + index * sizeof(std::uint64_t);
  }
  Status plan_reading(p2p::Newest version, std::span<const SlotRun> runs, bool proves) noexcept;
  std::uint64_t finish_reading(std::span<const SlotRun> runs) noexcept;
  void count_reading(p2p::Newest version, std::uint64_t bytes) noexcept;
  void drop_held(std::size_t index) noexcept;

  p2p::RemoteMemory at(p2p::RemoteMemory base, std::uint64_t offset) const noexcept {
    return {base.address + offset, base.key};
  }

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& table_;
  p2p::Peer& owner_;
  const std::uint64_t id_;
  p2p::Contract spec_;
  const bool take_declared_;
  std::size_t bytes_ = 0;
  bool credits_ = true;           ///< they are kept: the flow asks for it, or WEFT_CHECK=flow
  p2p::OwnedBlock credit_block_;  ///< written by the owner: credits, or the newest version
  stats::EdgeRow row_;
  p2p::EdgeCounters& counters_;
  std::vector<int> needs_;
  Needed needed_ = Needed::always;
  mutable p2p::UseGate gate_;  ///< shut when the owner has closed the slot

  std::atomic<Attach> attach_{Attach::asked};
  std::atomic<bool> asked_too_late_{false};
  bool leaving_ = false;       ///< the progress thread's
  bool may_go_ = false;        ///< the progress thread's
  std::uint64_t held_up_ = 0;  ///< the progress thread's: the ticket at the head of the queue
  Deadline::Clock::time_point held_up_since_{};
  std::uint64_t asked_for_ = 0;  ///< the progress thread's: the ticket a credit was asked for
  Status refusal_;
  std::uint64_t slot_id_ = 0;
  std::uint64_t attachment_id_ = 0;
  p2p::RemoteMemory lines_;
  p2p::RemoteMemory buffers_;
  std::uint64_t stride_ = 0;
  std::uint32_t notification_id_ = 0;

  // A writer. Where the first buffer lies and its word; the n-th lie n strides further.
  p2p::RemoteMemory payloads_;
  std::uint64_t payload_stride_ = 0;
  p2p::RemoteMemory tails_;  ///< buffers with words behind them; address 0: there are none
  std::uint64_t tail_stride_ = 0;
  // With nothing pending these belong to the application's thread; while puts are
  // pending, to whoever holds pending_mutex_.
  std::atomic<std::uint64_t> known_released_{0};  ///< as far as the credit word was read
  std::atomic<std::uint64_t> sent_{0};
  std::uint64_t sent_before_ = 0;  ///< by other writers
  int queue_pair_ = -1;            ///< -1: the channel chooses
  std::uint64_t index_ = 0;        ///< of the next buffer
  std::vector<Lent> lent_;         ///< dynamic: by buffer
  std::uint64_t taken_back_ = 0;   ///< dynamic: all up to this sequence are the writer's again
  p2p::OwnedBlock records_;        ///< dynamic: by buffer
  bool said_staged_ = false;
  p2p::OwnedBlock pack_;        ///< a packed tensor
  std::uint64_t prepared_ = 0;  ///< the ticket of the put that was rejected with its tensor packed
  p2p::InFlightPuts in_flight_;
  std::size_t front_done_ = 0;  ///< bytes of the first pending put that are in its buffer
  std::mutex pending_mutex_;
  std::atomic<std::uint32_t> pending_count_{0};
  using PendingRing = std::array<Pending, kMaxPending>;
  std::unique_ptr<PendingRing> pending_;       ///< by ticket modulo kMaxPending; made by the first
  std::uint64_t next_ticket_ = 1;              ///< guarded by pending_mutex_
  std::atomic<std::uint64_t> done_ticket_{0};  ///< all up to this one have ended

  // A reader.
  p2p::PublishedWords published_words_;  ///< where the owner's memory can be loaded from
  p2p::ReaderWords reader_words_;
  std::uint64_t newest_at_attach_ = 0;
  std::vector<Tensor> views_;  ///< by buffer
  std::uint64_t seen_ = 0;     ///< newest version viewed
  std::vector<Held> held_;
  /// Made when first used; its landing is for what is got into memory that the fabric can't reach.
  std::unique_ptr<p2p::Reading> reading_;
};

/// The writer of a slot that a peer puts into.
class PutWriter final : public RemoteSlotState {
 public:
  using RemoteSlotState::RemoteSlotState;
  /// As the owner declared it, once granted.
  const SlotSpec& spec() const noexcept { return spec_; }
  void keep_spec() { spec_ = contract().slot_spec(); }

 private:
  SlotSpec spec_;
};

/// A reader of a slot that its owner publishes.
class VersionReader final : public RemoteSlotState {
 public:
  using RemoteSlotState::RemoteSlotState;
  /// As the owner declared it, once granted.
  const PublishedSpec& spec() const noexcept { return spec_; }
  void keep_spec() { spec_ = contract().published_spec(); }

 private:
  PublishedSpec spec_;
};

inline PutWriter& RemoteSlotState::self() noexcept { return static_cast<PutWriter&>(*this); }

}  // namespace weft::detail
