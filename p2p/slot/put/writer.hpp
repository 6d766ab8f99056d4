// The writer of a slot that a peer puts into.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/life.hpp"
#include "p2p/slot/attach/awaited.hpp"
#include "p2p/slot/attach/remote_end.hpp"
#include "p2p/slot/attach/slot_access.hpp"
#include "p2p/slot/put/chunked_puts.hpp"
#include "p2p/slot/put/flow_check.hpp"
#include "p2p/slot/put/gpu_sources.hpp"
#include "p2p/slot/put/graph_puts.hpp"
#include "p2p/slot/put/held_up.hpp"
#include "p2p/slot/put/in_flight_puts.hpp"
#include "p2p/slot/put/lending.hpp"
#include "p2p/slot/put/mapped_puts.hpp"
#include "p2p/slot/put/pending_puts.hpp"
#include "p2p/slot/put/refused_put.hpp"
#include "p2p/slot/put/stream_puts.hpp"
#include "p2p/slot/put/writer_credits.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {

/// Where puts go: the first buffer and its word; the n-th lie n strides further.
struct PutTarget {
  RemoteMemory payloads;
  std::uint64_t payload_stride = 0;
  RemoteMemory lines;
  RemoteMemory tails;  ///< buffers with words behind them; address 0: there are none
  std::uint64_t tail_stride = 0;
  std::uint32_t notification_id = 0;
  int queue_pair = -1;      ///< -1: the channel chooses
  std::uint64_t index = 0;  ///< of the next buffer
};

}  // namespace weft::p2p

namespace weft::detail {

/// RemoteSlot's implementation: puts at once, or keeps puts pending until there is a credit. While
/// puts are pending the progress thread moves them too, under their mutex.
class PutWriter final : public RemoteEnd {
 public:
  static constexpr std::size_t kMaxPending = p2p::PendingPuts::kMost;

  PutWriter(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table, p2p::Peer& owner,
            const SlotSpec& asked, bool take_declared, std::uint64_t id)
      : RemoteEnd(local, mesh, table, owner, asked, take_declared, id),
        pending_(row_.pending()),
        unseen_(local, mesh, owner) {}

  /// As the owner declared it, once granted.
  const SlotSpec& spec() const noexcept { return spec_; }

  /// Behaviour of a put when the pending queue is full although there is a credit.
  enum class Crowded : std::uint8_t { wait, refuse };
  Request put(const Tensor& tensor, Until until, Crowded crowded = Crowded::wait) noexcept;
  Request put(std::span<const Tensor> parts, Until until) noexcept;
  /// Puts the tensor once what is on the stream is done.
  Request put_behind(const Tensor& tensor, Stream stream, Until until) noexcept;
  Request put_behind(std::span<const Tensor> parts, Stream stream, Until until) noexcept;
  /// Puts only the first elements of the next buffer. For a slot of fixed shape without tails
  /// (Notify::always) whose ends know how much comes. The source is dense. `more`: another put
  /// follows at once, and the two may go together.
  Request put_front(const Tensor& tensor, bool more) noexcept;
  /// Whether a put would not wait for a credit: there is one, or none will come any more.
  bool may_put() noexcept;
  /// Moves what can be moved. Returns whether puts are still pending.
  bool move_pending() noexcept;

  /// The rest of an attach, for a slot on a GPU: maps the owner's buffers where that can be and
  /// proves that they are reached, or finds out why not. The application's thread, before a put.
  void map_buffers(Deadline deadline) noexcept;
  /// The same without a wait, for puts from that GPU: one step. How puts come to the slot; nullopt:
  /// it is to be called again, soon if a copy of a GPU is under way. One thread at a time.
  std::optional<p2p::cuda::GpuWay> map_step(const std::shared_ptr<p2p::cuda::Gpu>& gpu) noexcept;

  // Requests.
  /// Whether the put with this ticket has ended; moves pending puts that have got a credit.
  bool put_ended(std::uint64_t ticket) noexcept;
  Status wait_put(std::uint64_t ticket, Deadline deadline) noexcept;
  /// The stream waits in place of the thread.
  Status wait_put_on(std::uint64_t ticket, Stream stream, Deadline deadline) noexcept;
  /// `ended`: false when the operation can't be ended and lives on.
  Status cancel_put(std::uint64_t ticket, bool& ended) noexcept;
  /// The event that the put with this ticket waits for.
  p2p::Awaited awaited_put(std::uint64_t ticket);
  /// For requests, which may outlive this end.
  Life& life() noexcept { return life_; }

  int queue_pairs() const noexcept { return owner_.channel->capabilities().queue_pairs.load(); }
  void use_queue_pair(int index);
  void also_needs(std::span<const int> ranks, Needed needed) override;

  bool has_completed() noexcept override;
  bool serve_pending() noexcept override;
  void flow_answered(const p2p::FlowAnswerMessage& answer) noexcept override;
  void drop_pending() noexcept override;
  void abandon() noexcept override;
  bool is_copying() noexcept override;
  void gpu_page_seen(const p2p::GpuPageSeenMessage& message) noexcept override;

 private:
  /// A put on its way to the channel. Handed on by value, so that the common put keeps it in
  /// registers.
  struct Moving {
    std::span<const Tensor> parts;
    Until until = Until::reusable;
    std::uint64_t ticket = 0;                       ///< 0: it has none yet
    const p2p::cuda::StreamPoint* after = nullptr;  ///< for the copy by a GPU
    bool more = false;
    bool full = false;  ///< answer: the channel takes no more, and took nothing
    p2p::InFlightPut* put_in_flight = nullptr;  ///< answer: it is under way
    bool lent = false;                          ///< answer: and the source with it
  };

  void take_grant(const p2p::AttachedMessage& message, const p2p::Contract& declared,
                  const p2p::GrantedMemory& memory) override;
  bool dynamic() const noexcept { return spec_.placement == Placement::dynamic; }
  [[gnu::always_inline]] inline bool has_credit() noexcept {
    return credits_.has_credit(credit_word());
  }
  [[gnu::always_inline]] inline Status move(Moving& moving) noexcept;
  /// The channel has taken a put and goes on with it.
  [[gnu::cold]] Moving start_put(Moving moving, const p2p::PutWork& work) noexcept;
  /// The application's put is under way: its request says when it has ended.
  [[gnu::cold]] void follow(Moving moving, Request& request) noexcept;

  // The source: memory as it lies, or a copy of it where the fabric can't reach it.
  [[gnu::always_inline]] bool reachable(const Tensor& tensor) const noexcept {
    if (tensor.arena() == local_.data.get()) [[likely]]
      return true;
    return reachable_outside(tensor);
  }
  /// The same for a tensor that the world did not allocate.
  bool reachable_outside(const Tensor& tensor) const noexcept;
  Status gather(Moving moving, p2p::PutWork& work) noexcept;
  /// A dynamic put moves a record of where the tensor lies.
  Status announce(Moving moving, p2p::PutWork& work) noexcept;
  Status make_pack() noexcept;
  /// Copies tensors on a GPU into host memory, which becomes `into`. While that is under way,
  /// is_staging_ is set, and the same call goes on.
  Status stage_from_gpu(const Moving& moving, p2p::OwnedBlock& into) noexcept;
  /// Host memory for that: of the data arena where the owner is to read it, else for a pack.
  p2p::OwnedBlock make_stage(std::uint64_t ticket, std::size_t bytes);
  /// Whether the path reads all parts where they lie, of which some are on a GPU.
  bool reached_by_nic(std::span<const Tensor> parts) noexcept;
  /// Begins that for a put unless it has begun.
  Status begin_staging(std::uint64_t ticket, std::span<const Tensor> parts,
                       const p2p::cuda::StreamPoint* after) noexcept;
  /// The same for the put behind the first one, if that comes from a GPU too.
  void stage_ahead(std::uint64_t ticket) noexcept;
  /// Finds out why tensors on a GPU are staged; an error where they may not be.
  Status staging_verdict(std::span<const Tensor> parts) noexcept;
  void log_staged(const char* why) noexcept;
  const char* why_staged() const noexcept;

  // The same chunk by chunk.
  bool goes_in_chunks(const Moving& moving) noexcept;
  /// Puts what is there of a put's chunks; once all but the last are at the owner, `work` is the
  /// last. Until then is_staging_ is set, and the same call goes on.
  Status put_in_chunks(const Moving& moving, p2p::PutWork& work) noexcept;
  /// How many chunks a GPU has copied; begins that.
  Status chunks_from_gpu(const Moving& moving, std::size_t& there) noexcept;
  Status begin_chunks(const Moving& moving) noexcept;
  /// `whole`: where the put goes. `copied`: grows by the bytes that are there within the call.
  Status put_next_chunk(const Moving& moving, const p2p::PutWork& whole,
                        std::size_t& copied) noexcept;
  std::shared_ptr<const p2p::OwnedBlock> chunk_stage(std::uint64_t ticket);
  void count_chunks(const Moving& moving) noexcept;
  /// Whether chunks of a put that failed are still on their way to the next buffer.
  bool waits_for_torn_chunks() noexcept;

  // The same without staging, where the owner's buffers are mapped.
  p2p::MappedPuts::Way map_by_gpus(Deadline until);
  p2p::MappedPuts::Way map_by(const std::shared_ptr<p2p::cuda::Gpu>& gpu, Deadline until);
  p2p::cuda::GpuWay prove(Deadline until);
  p2p::cuda::GpuWay ask_whether_seen(std::uint64_t nonce, Deadline until);
  void ask_owner(std::uint64_t nonce);
  /// The owner and the puts to come learn the way.
  void settle_way(const p2p::MappedPuts::Way& way) noexcept;
  // Steps of map_step(); the way once there is one. Throw Error.
  std::optional<p2p::MappedPuts::Way> begin_to_map(const std::shared_ptr<p2p::cuda::Gpu>& gpu);
  std::optional<p2p::MappedPuts::Way> go_on_mapping();
  void settle_steps(const std::shared_ptr<p2p::cuda::Gpu>& gpu, p2p::MappedPuts::Way way) noexcept;
  Status begin_mapped(std::uint64_t ticket, std::span<const Tensor> parts, std::uint64_t buffer,
                      const p2p::cuda::StreamPoint* after) noexcept;
  /// Begins the copy of the put behind the first one, if its buffer is free.
  void map_ahead(std::uint64_t ticket) noexcept;
  /// Copies a put's tensors; once that has ended, `work` is what tells the owner. While it is under
  /// way, is_staging_ is set, and the same call goes on.
  Status copy_mapped(const Moving& moving, p2p::PutWork& work) noexcept;

  // Streams.
  /// Checks the stream, and makes beforehand what its waits and copies need. Throws Error.
  p2p::cuda::UserStream prepare_stream(Stream stream, Memory memory);
  /// The same for a stream that was checked.
  void prepare_for(const p2p::cuda::UserStream& user, Memory memory);
  void prepare_copies(const std::shared_ptr<p2p::cuda::Gpu>& gpu);
  /// Pinned host memory for a tensor of a dynamic slot that a GPU is to copy. Throws Error.
  p2p::OwnedBlock prepare_dynamic(const p2p::cuda::UserStream& user, const Tensor& tensor);
  /// `pending` holds tensors that fit the slot. Throws Error.
  Request enqueue_behind(p2p::PendingPut pending, Stream stream);
  /// Whether no GPU has to pin memory for the put of a tensor in host memory. Throws Error.
  bool prepare_host_tensor(const p2p::cuda::UserStream& user, const Tensor& tensor);
  Status wait_for_point(const p2p::cuda::StreamPoint& point) noexcept;
  /// Why a put failed that a stream waited for, once. Takes the mutex.
  Status take_stream_failure() noexcept;
  /// Lets go on the streams whose puts have ended. Takes the mutex. Returns whether some wait.
  bool serve_streams() noexcept;
  /// Lets go on the streams whose puts have not begun, and won't. Requires the mutex.
  void drop_streams() noexcept;
  Status late_stream() const noexcept;
  /// Cancels a put that a stream has waited for too long. Returns whether that could be. Requires
  /// the mutex.
  bool cancel_late(std::uint64_t ticket) noexcept;

  // Captured graphs. Those that move or end runs require the mutex.
  std::optional<p2p::cuda::Capture> capture_of(Stream stream, Memory memory) const;
  /// Made by the first call. Throws std::bad_alloc.
  p2p::GraphPuts& graphs();
  /// The application's thread.
  bool has_graphs() const noexcept { return streams_ && streams_->graphs; }
  /// Throws Error.
  Request capture_put(p2p::PendingPut pending, const p2p::cuda::Capture& capture);
  /// Takes the mutex.
  Status capture_put_end(std::uint64_t ticket, Stream stream, Deadline deadline) noexcept;
  /// For calls that are not for the request of a captured put. Needs no mutex.
  Status put_of_graph(const char* operation) const noexcept;
  /// Returns whether something has begun or ended, as the next three.
  bool move_graphs(p2p::GraphPuts& all, std::size_t most = p2p::GraphPuts::kMostUnderWay) noexcept;
  bool begin_graph_puts(p2p::GraphPuts& all, std::size_t most) noexcept;
  bool end_graph_puts(p2p::GraphPuts& all) noexcept;
  bool let_graphs_go(p2p::GraphPuts& all) noexcept;
  /// The application is to be told, and graphs put nothing until then.
  void fail_graphs(p2p::GraphPuts& all, Status why) noexcept;
  /// Puts of graphs that have not begun to move never will.
  void drop_graph_puts(p2p::GraphPuts& all) noexcept;
  /// The application's thread, before it puts: those of replays that have begun go first. Returns
  /// whether all of them are pending puts now, or have ended.
  bool queue_graph_puts() noexcept;

  /// Whether the put need not wait for its stream any more, or its copy does that. The mutex.
  bool is_due(p2p::PendingPut& put) noexcept;
  Status put_failure(const Status& why) const noexcept;

  /// Why a tensor on a GPU can't be put, or ok().
  Status check_gpu_tensors(std::span<const Tensor> parts) const noexcept;
  /// Whether wrapped host memory is in truth a GPU's.
  bool is_misplaced(const Tensor& tensor) const noexcept;
  /// For a tensor that the processor can't read.
  [[gnu::cold]] Request put_or_refuse(const Tensor& tensor, Until until, Crowded crowded) noexcept;

  /// The put's request ends with `why`, which is told if the application does not look at it.
  [[gnu::cold]] void end_refused(Request& request, const Status& why,
                                 Crowded crowded = Crowded::wait) noexcept;
  /// `why`, as a request keeps it. `before`: number of puts that are pending before this one.
  Status unseen(const Status& why, std::uint64_t before) noexcept {
    return unseen_.keep(
        why, {.slot_id = slot_id_, .remote_id = id_, .sequence = credits_.sent() + before + 1});
  }
  void keep_outcome(Request& request, Status outcome) noexcept {
    const bool is_kept = unseen_.holds(outcome);
    SlotAccess::refuse(request, std::move(outcome), is_kept);
  }
  /// The application looks at a put's outcome.
  [[gnu::cold]] void look_at(const Status& outcome) noexcept {
    if (unseen_.holds(outcome)) unseen_.see();
  }
  Status wrong_put(std::string_view what) const noexcept;
  /// Why tensors can't be gathered into one of the slot's, or ok().
  Status check_gather(std::span<const Tensor> parts) const noexcept;
  /// For a tensor that does not fit the slot, or has no memory.
  [[gnu::cold]] Status refuse_tensor(const Tensor& tensor) const noexcept;
  Status overrun() const noexcept;

  // Pending puts; what follows requires their mutex.
  Request enqueue(p2p::PendingPut pending, Crowded crowded) noexcept;
  bool is_crowded() const noexcept;
  bool drain() noexcept;
  /// Whether the first pending put has a buffer to go to.
  bool front_has_credit(std::uint64_t ticket) noexcept;
  void fail_pending(const Status& why) noexcept;
  bool has_ended_locked(std::uint64_t ticket) noexcept;
  Status cancel_locked(std::uint64_t ticket, bool& ended) noexcept;
  /// Whether the owner has read a dynamic tensor, or never will.
  bool is_read(std::uint64_t ticket) noexcept;
  Status outcome_of(std::uint64_t ticket) const noexcept;
  /// Whether the put has left this rank, and only its end has not come.
  bool is_on_its_way(std::uint64_t ticket) const noexcept {
    return !dynamic() && pending_.done(std::memory_order_relaxed) >= ticket;
  }
  /// The event that an unfinished put waits for.
  p2p::Awaited late_put(std::uint64_t ticket) const;

  // These take the mutex.
  /// How tools see the wait for a put: by the number of its tensor.
  stats::WaitAbout about_put(std::uint64_t ticket) const noexcept;
  /// As many puts are pending as may be, and there is a credit: waits until the fabric takes more.
  [[gnu::cold]] void wait_for_room() noexcept;
  /// Whether a put that has begun is still under way.
  bool is_in_flight(std::uint64_t ticket) noexcept;
  bool read_by_owner(std::uint64_t ticket) noexcept;
  bool has_ended(std::uint64_t ticket) noexcept;
  Status put_outcome(std::uint64_t ticket, Deadline deadline) noexcept;

  Status in_flight_failure(const Status& why) const noexcept;
  void ask_for_credit(std::uint64_t ticket) noexcept;

  SlotSpec spec_;
  std::size_t bytes_ = 0;
  p2p::PutTarget target_;
  p2p::WriterCredits credits_;
  p2p::InFlightPuts in_flight_;
  p2p::PendingPuts pending_;
  std::unique_ptr<p2p::Lending> lending_;  ///< dynamic
  p2p::OwnedBlock pack_;                   ///< a packed tensor
  std::uint64_t prepared_ = 0;  ///< the ticket of the put that was rejected with its tensor packed
  std::unique_ptr<p2p::GpuSources> gpu_sources_;  ///< made by the first put from a GPU
  std::unique_ptr<p2p::ChunkedPuts> chunks_;      ///< null: tensors that are staged go whole
  bool is_staging_ = false;  ///< the put that was to move waits for its copy by a GPU
  std::unique_ptr<p2p::MappedPuts> mapped_;  ///< null: the slot lies in host memory
  struct WhyNot {
    const char* mapped = nullptr;
    const char* reached = nullptr;
  };
  WhyNot why_not_;
  std::uint64_t mark_ = 0;  ///< for the line of the put that a GPU has copied
  /// Every put is pending first: of a dynamic slot, by copies of a GPU, in chunks, and once streams
  /// are used, for which the progress thread looks at the puts that have begun.
  bool queues_ = false;
  bool gathers_ = false;  ///< no tensor goes as it lies: of a dynamic slot, and by copies of a GPU
  std::size_t front_done_ = 0;  ///< bytes of the first pending put that are in its buffer
  std::unique_ptr<p2p::StreamPuts> streams_;
  std::atomic<bool> streams_wait_{false};  ///< or runs of graphs are under way
  p2p::OwnedBlock spare_;                  ///< to be pinned once no stream waits
  p2p::HeldUp held_up_;
  p2p::FlowCheck flow_check_;
  p2p::UnseenRefusal unseen_;
  Life life_;
};

}  // namespace weft::detail
