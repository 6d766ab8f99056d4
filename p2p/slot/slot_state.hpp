// The owner's end of a slot.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/slot/awaited.hpp"
#include "p2p/slot/contract.hpp"
#include "p2p/slot/published_words.hpp"
#include "p2p/slot/slot_access.hpp"
#include "p2p/slot/slot_line.hpp"
#include "p2p/slot/slot_messages.hpp"
#include "p2p/slot/tail_buffers.hpp"
#include "p2p/slot/use_gate.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {
class SlotTable;

}  // namespace weft::p2p

namespace weft::detail {

/// The place of one attached rank: a put slot's writer, or one of a published slot's readers.
/// Attachments stay with the slot until it goes, so that the application's thread may walk them
/// freely; one that is left serves the next attach of the same peer.
struct Attachment {
  std::atomic<std::uint64_t> id{0};  ///< of this use of the attachment
  p2p::Peer* peer = nullptr;
  std::uint64_t remote_id = 0;
  /// In the remote end's memory: a writer's credits, or the newest version for a reader that can't
  /// load it from here.
  p2p::RemoteMemory credit_word;
  bool wants_newest = false;                     ///< it is such a reader
  std::optional<std::uint32_t> notification_id;  ///< a writer's: what the channel calls the lines
  bool tails = false;                    ///< a writer's: its words may lie behind their tensors
  std::uint64_t released_at_attach = 0;  ///< what the writer was told when it attached
  p2p::OwnedBlock words_block;           ///< a reader's words, in this rank's control arena
  p2p::UseGate gate;  ///< shut when the remote end is gone: no more credit writes
  std::atomic<bool> active{false};
  std::uint64_t leaves_after = 0;  ///< dynamic: gone, but its tensors up to this one are unread
  Attachment* next = nullptr;

  p2p::ReaderWords words() const noexcept { return p2p::ReaderWords(words_block.data()); }
  bool counts() const noexcept { return active.load(std::memory_order_acquire) && !peer->gone(); }
};

/// The application's thread calls the first group, the progress thread the second.
class SlotState {
 public:
  SlotState(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table, p2p::Contract spec,
            std::uint64_t id, Tensor memory, p2p::Notify notify);
  ~SlotState() { end_reading(); }
  SlotState(const SlotState&) = delete;
  SlotState& operator=(const SlotState&) = delete;
  /// The world goes: memory that a live peer may still write into is never given back.
  void abandon() noexcept;

  Result<Arrival> wait(Deadline deadline) noexcept;
  bool ready() const noexcept;
  /// The word in which the next arrival shows, and the smallest value that it then holds: for a
  /// thread other than the slot's one user. For a slot whose puts always notify.
  std::pair<const std::atomic<std::uint64_t>*, std::uint64_t> next_arrival() const noexcept {
    return {&line(buffer_).sequence, received_ + 1};
  }
  bool broken() const noexcept;
  /// Before a wait on several slots: what a wait on this one alone would do first.
  void before_wait() noexcept { flush_credit(); }
  /// The tensor that a wait lacks.
  p2p::Awaited awaited() const;
  Result<Tensor> next(Deadline deadline) noexcept;
  Status publish() noexcept;
  int readers() const noexcept;
  void allocate_with(AllocateTensor allocate);
  void also_needs(std::span<const int> ranks, Needed needed) {
    mesh_.check_ranks(ranks, "also_needs");
    needs_.assign(ranks.begin(), ranks.end());
    needed_ = needed;
  }
  void release(std::uint64_t sequence) noexcept;

  /// Decides on an attach; fills `granted`, or returns why not.
  Status admit(p2p::Peer& peer, const p2p::AttachMessage& asked, p2p::AttachedMessage& granted);
  /// A remote end is gone. Its rank is told once its words will not be written any more. False when
  /// it has no attachment here.
  bool detach_peer(const p2p::Peer& peer, std::uint64_t remote_id) noexcept;
  /// The writer is held up for credits that were not worth reporting yet.
  void credit_wanted(const p2p::Peer& peer, std::uint64_t remote_id) noexcept;
  /// The slot is closed: tells every remote end. Returns how many must agree.
  int begin_close();
  /// A remote end has agreed, or is dead. Returns whether the memory is free now.
  bool agreed(const p2p::Peer& peer, std::uint64_t attachment_id) noexcept;
  /// Closed, and every remote end has agreed.
  bool is_free() const noexcept { return closed_ && to_agree_ == 0; }
  /// Forgets a dead peer's attachments. Returns whether, for a closed slot, the memory is free now.
  bool peer_gone(const p2p::Peer& peer) noexcept;
  void count_quarantine(bool enters) noexcept;
  /// From now on only its peers keep it.
  void show_closing() noexcept { row_.set_state(stats::EdgeState::closing); }
  /// Whether tensors have come, since the last time, that rang no bell.
  bool came_silently() noexcept;
  /// A dynamic slot's writers that left tells them once their last tensors were read.
  void let_drained_go() noexcept;

  const p2p::Contract& contract() const noexcept { return spec_; }
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
  struct Dynamic {
    std::uint64_t sequence = 0;  ///< 0: free
    Tensor tensor;
  };
  /// A dynamic tensor that is being read, perhaps over several waits.
  struct BeingRead {
    std::uint64_t sequence = 0;  ///< 0: none
    p2p::DynamicRecord record;
    Dynamic* place = nullptr;
    bool started = false;
    std::unique_ptr<p2p::Reading> reading;
  };
  bool dynamic() const noexcept { return spec_.placement == Placement::dynamic; }
  std::uint64_t buffer_of(std::uint64_t sequence) const noexcept {
    return (sequence - 1) % spec_.depth;
  }
  p2p::SlotLine& line(std::uint64_t index) const noexcept {
    return reinterpret_cast<p2p::SlotLine*>(lines_.data())[index];
  }
  /// The sequence number in the words of a buffer: in its line, and behind its tensor.
  std::uint64_t sequence_at(std::uint64_t index) const noexcept {
    const std::uint64_t by_line = line(index).sequence.load(std::memory_order_seq_cst);
    const p2p::TailBuffers* tails = tails_.load(std::memory_order_acquire);
    if (tails == nullptr) [[likely]]
      return by_line;
    const std::uint64_t by_tail = tails->word(index).load(std::memory_order_acquire);
    p2p::device_load_barrier();  // a NIC wrote it, and the tensor before it
    return std::max(by_line, by_tail);
  }
  /// Where the tensor lies that has arrived in buffer_, if not behind its line: each tensor has one
  /// word, of either kind.
  const p2p::TailBuffers* arrived_with_tail(std::uint64_t sequence) const noexcept {
    const p2p::TailBuffers* tails = tails_.load(std::memory_order_acquire);
    if (tails == nullptr) [[likely]]
      return nullptr;
    return line(buffer_).sequence.load(std::memory_order_relaxed) == sequence ? nullptr : tails;
  }
  /// Lets the writer put words behind their tensors, if it can and there is room for them.
  void grant_tails(const p2p::Peer& peer, const p2p::AttachMessage& asked,
                   p2p::AttachedMessage& granted);
  void release_out_of_order(std::uint64_t sequence, std::uint64_t all) noexcept;
  void write_credit(std::uint64_t threshold, p2p::Notify notify) noexcept;
  [[gnu::cold]] void write_wanted_credit() noexcept;
  /// Takes the buffer to fill, unless a reader pins it.
  bool take(std::uint64_t buffer) noexcept;
  bool take_any() noexcept;
  Result<Tensor> next_in_turn() noexcept;
  void announce(Attachment& attachment) noexcept;
  const Attachment* pinning_reader(std::uint64_t buffer) const noexcept;
  const Attachment* lagging_reader(std::uint64_t release_needed) const noexcept;
  /// Whether the writer, as far as is known here, has credits left, and giving it more is no mere
  /// store.
  bool may_put_credit_off() const noexcept;
  void flush_credit() noexcept;
  /// Waits for the next tensor's sequence word.
  [[gnu::always_inline]] inline Status await(std::uint64_t wanted, Deadline deadline) noexcept;
  stats::WaitAbout waits_for(std::uint64_t wanted) const noexcept;
  void place_buffers();
  /// Copies a tensor from the buffers that stand in for memory which its writer can't reach.
  void unstage() noexcept;
  Result<Arrival> read_dynamic(std::uint64_t wanted, Deadline deadline) noexcept;
  /// A dynamic tensor was read, or never will be: its writer may go on.
  void pass(std::uint64_t sequence) noexcept;
  /// Makes room for what the record announces.
  Status begin_dynamic(std::uint64_t wanted, Deadline until) noexcept;
  Status read_announced(Deadline until) noexcept;
  Status start_reading(const p2p::RemoteMemory& from) noexcept;
  /// Gives up a read under way, which keeps the memory lent to it until it has ended.
  void end_reading() noexcept;
  Result<p2p::RemoteMemory> find(const p2p::DynamicRecord& record, std::size_t bytes,
                                 Deadline deadline) noexcept;
  void forget_dynamic(std::uint64_t sequence) noexcept;
  Attachment& free_attachment(p2p::Peer& peer);
  void make_tails();
  /// Takes what the attachment's puts come by, and says so in the grant.
  void expect_puts(Attachment& attachment, p2p::AttachedMessage& granted);
  /// Makes the peer know the memory that it is about to be granted.
  Status share_memory(p2p::Peer& peer);
  Status not_shared(const p2p::Peer& peer) const;
  /// The remote end puts no more.
  void expect_no_more(Attachment& attachment) noexcept;
  /// From now on the attachment counts.
  void activate(Attachment& attachment) noexcept;
  Status writer_taken(const p2p::Peer& peer) const;
  std::uint64_t highest_sequence() const noexcept;
  /// Makes room for tensors of a writer that can't reach the user's memory.
  void prepare_stage(const p2p::Peer& peer);
  /// The buffers are the user's memory, or stand in for it.
  void grant_memory(p2p::AttachedMessage& granted);
  Status wrong_arrival(std::uint64_t wanted, std::uint64_t seen) const;
  Status wait_failure(p2p::WaitEnd end, std::uint64_t wanted) noexcept;
  Status failure(Code code, const char* operation, std::string message, std::string hint) const;
  Status admit_writer(Attachment& attachment, const p2p::AttachMessage& asked,
                      p2p::AttachedMessage& granted);
  Status admit_reader(Attachment& attachment, const p2p::AttachMessage& asked,
                      p2p::AttachedMessage& granted);
  Result<p2p::RemoteMemory> resolve_credit_word(const Attachment& attachment,
                                                const p2p::AttachMessage& asked) const;
  void remember_refusal(const Status& status);

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& table_;
  const p2p::Contract spec_;
  const std::uint64_t id_;
  const std::size_t bytes_;  ///< of one tensor
  Tensor memory_;            ///< the user's, for the buffers; empty: the arena's
  const p2p::Notify notify_;
  const std::size_t stride_;  ///< from buffer to buffer; 0: tensors travel in the lines
  const std::size_t line_count_;
  p2p::OwnedBlock lines_;
  p2p::OwnedBlock buffers_;
  const bool credits_;                  ///< they are kept: the flow asks for it, or WEFT_CHECK=flow
  std::vector<Tensor> tensors_;         ///< by buffer
  const std::uint64_t report_idle_;     ///< credits that are reported when there is time
  const std::uint64_t report_pressed_;  ///< credits that are reported even if there is none
  stats::EdgeRow row_;
  p2p::EdgeCounters& counters_;
  std::vector<int> needs_;
  Needed needed_ = Needed::always;

  // A put slot.
  std::atomic<Attachment*> writer_{nullptr};
  std::atomic<int> last_writer_{-1};
  std::uint64_t buffer_ = 0;                ///< of the next arrival
  std::uint64_t received_ = 0;              ///< highest sequence handed to the application
  std::atomic<std::uint64_t> released_{0};  ///< all up to this one were let go
  static constexpr std::uint64_t kNothingWanted = ~std::uint64_t{0};
  /// The writer is held up: letting go of this one is reported at once.
  std::atomic<std::uint64_t> wanted_from_{kNothingWanted};
  /// Where writers may put words behind tensors; made for the first that does.
  std::unique_ptr<p2p::TailBuffers> tails_made_;
  std::atomic<const p2p::TailBuffers*> tails_{nullptr};
  std::vector<std::uint8_t> released_early_;  ///< by buffer: let go before an earlier one
  p2p::OwnedBlock stage_;                     ///< buffers in the place of memory_
  /// The first tensor put there, less one. Once one writer needed it, all that follow use it.
  std::atomic<std::uint64_t> staged_after_{std::numeric_limits<std::uint64_t>::max()};
  AllocateTensor allocate_;
  std::vector<std::unique_ptr<Dynamic>>
      dynamics_;  ///< tensors read and not let go, and free places
  BeingRead being_read_;
  std::atomic<bool> draining_{false};      ///< an attachment waits for its last tensors to be read
  std::uint64_t reported_attachment_ = 0;  ///< whom reported_ was told to
  std::uint64_t reported_ = 0;             ///< what the writer knows of released_
  std::atomic<bool> refused_{false};
  mutable std::mutex refusal_mutex_;
  Status refusal_;

  // A published slot.
  std::atomic<Attachment*> readers_{nullptr};
  p2p::PublishedWords published_words_;
  p2p::Newest newest_;
  std::optional<std::uint64_t> filling_;   ///< the buffer that next() gave
  std::atomic<std::uint64_t> writing_{0};  ///< synchronous: the version being filled

  // The progress thread's.
  std::vector<std::unique_ptr<Attachment>> attachments_;
  std::uint64_t next_attachment_ = 1;
  std::uint64_t reported_silent_ =
      0;  ///< came_silently() has said so of the tensors up to this one
  int to_agree_ = 0;
  bool closed_ = false;
};

/// The owner of a slot that a peer puts into.
class PutOwner final : public SlotState {
 public:
  PutOwner(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table, const SlotSpec& spec,
           std::uint64_t id, Tensor memory, p2p::Notify notify)
      : SlotState(local, mesh, table, spec, id, std::move(memory), notify), spec_(spec) {}
  const SlotSpec& spec() const noexcept { return spec_; }

 private:
  const SlotSpec spec_;
};

/// The owner of a slot that it publishes.
class Publisher final : public SlotState {
 public:
  Publisher(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table,
            const PublishedSpec& spec, std::uint64_t id)
      : SlotState(local, mesh, table, spec, id, {}, p2p::Notify::optional), spec_(spec) {}
  const PublishedSpec& spec() const noexcept { return spec_; }

 private:
  const PublishedSpec spec_;
};

}  // namespace weft::detail
