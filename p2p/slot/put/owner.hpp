// The owner of a slot that a peer puts into.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "p2p/slot/attach/awaited.hpp"
#include "p2p/slot/attach/exposed_slot.hpp"
#include "p2p/slot/attach/held_arrivals.hpp"
#include "p2p/slot/attach/slot_access.hpp"
#include "p2p/slot/put/buffers.hpp"
#include "p2p/slot/put/credit_reports.hpp"
#include "p2p/slot/put/dynamic_arrivals.hpp"
#include "p2p/slot/put/graph_waits.hpp"
#include "p2p/slot/put/refused_attach.hpp"
#include "p2p/slot/put/refused_put.hpp"
#include "p2p/slot/put/stream_arrivals.hpp"
#include "weft/slot.hpp"

namespace weft::detail {

/// Slot's implementation: waits for arrivals, hands them out and reports credits.
class PutOwner final : public ExposedSlot, public std::enable_shared_from_this<PutOwner> {
 public:
  PutOwner(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table, const SlotSpec& spec,
           std::uint64_t id, Tensor memory, p2p::Notify notify);

  const SlotSpec& spec() const noexcept { return spec_; }

  // The application's thread.
  Result<Arrival> wait(Deadline deadline) noexcept;
  Result<Arrival> wait_on(Stream stream, Deadline deadline) noexcept;
  bool ready() const noexcept { return buffers_.sequence_at(buffer_) >= received_ + 1; }
  /// The word that shows the next arrival, and the least that it holds then: for a thread that
  /// looks without being the slot's one user. For a slot whose puts always ring.
  std::pair<const std::atomic<std::uint64_t>*, std::uint64_t> next_arrival() const noexcept {
    return {&buffers_.line(buffer_).sequence, received_ + 1};
  }
  /// Whether a wait can only fail.
  bool broken() const noexcept;
  /// Before a wait on several slots: what a wait on this one alone would do first.
  void before_wait() noexcept { flush_credit(); }
  /// The tensor that a wait lacks.
  p2p::Awaited awaited() const;
  /// Reports what was released since the last report, for a caller that is about to put to the
  /// same peer: by some fabrics the report travels with that put.
  void report_with_next_put() noexcept { write_credit(1, p2p::Notify::deferred); }
  void allocate_with(AllocateTensor allocate);
  /// `outcome`: the arrival's; null: a thread has waited for it.
  void release(std::uint64_t sequence, const std::uint32_t* outcome) noexcept;
  Status release_behind(std::uint64_t sequence, const std::uint32_t* outcome,
                        Stream stream) noexcept;
  void end_streams() noexcept override;
  void also_needs(std::span<const int> ranks, Needed needed);
  p2p::HeldArrivals<PutOwner>& held() noexcept { return held_; }

  // The progress thread.
  void count_quarantine(bool enters) noexcept override;
  void abandon() noexcept override;
  void credit_wanted(const p2p::Peer& peer, std::uint64_t remote_id) noexcept override;
  void flow_asked(p2p::Peer& peer, const p2p::FlowQuestionMessage& question) override;
  void put_refused(const p2p::Peer& peer, const p2p::PutRefusedMessage& message) override;
  bool gpu_way(p2p::Peer& peer, const p2p::GpuWayMessage& message) noexcept override;
  bool serve() noexcept override;
  bool came_silently() noexcept override;
  EdgeReport report() const override;

 private:
  bool dynamic() const noexcept { return spec_.placement == Placement::dynamic; }
  /// Takes the buffer of the next arrival.
  void pass_buffer() noexcept { buffer_ = buffer_ + 1 == spec_.depth ? 0 : buffer_ + 1; }
  /// Waits for the next tensor's sequence word.
  [[gnu::always_inline]] inline Status await(std::uint64_t wanted, Deadline deadline) noexcept;
  /// The same for one that has not come yet.
  [[gnu::always_inline]] inline Status await_arrival(std::uint64_t wanted,
                                                     Deadline deadline) noexcept;
  /// The same for a slot on a GPU, which copies what has come of it meanwhile.
  [[gnu::cold]] Status await_in_chunks(std::uint64_t wanted, Deadline deadline) noexcept;
  template <typename Arrived>
  [[gnu::always_inline]] inline Status await_until(const Arrived& arrived, std::uint64_t wanted,
                                                   Deadline deadline) noexcept;
  stats::WaitAbout waits_for(std::uint64_t wanted, stats::WaitDetails& details) const noexcept;
  /// The first tensor that the application has received and not released; 0: none, or the writer
  /// needs no credit.
  std::uint64_t first_held() const noexcept;
  /// Brings an arrived tensor from its staging buffer to where the slot lies.
  [[gnu::cold]] Status unstage(std::uint64_t wanted, Deadline deadline) noexcept;
  Status unstage_to_gpu(std::uint64_t wanted, Deadline deadline) noexcept;
  /// WEFT_REQUIRE=gdr, and a tensor that lies in host memory.
  Status staging_refusal() const;
  /// Begins the copies of all that has arrived from that tensor on, in its buffer. Throws Error.
  void begin_unstaging(std::uint64_t index, std::uint64_t wanted);
  /// The same for chunks of the first that has not arrived, which is no further than that.
  void begin_unstaging_early(std::uint64_t index, std::uint64_t wanted) noexcept;
  /// The progress thread may copy for a stream that waited for an earlier tensor.
  std::unique_lock<std::mutex> lock_copies() noexcept {
    return streams_made_ ? std::unique_lock(streams_made_->mutex) : std::unique_lock<std::mutex>();
  }
  Result<Arrival> read_dynamic(std::uint64_t wanted, Deadline deadline) noexcept;
  /// Takes the record of a dynamic tensor and makes room for what it announces.
  Status begin_dynamic(std::uint64_t wanted, Deadline until) noexcept;
  /// A dynamic tensor was read, or never will be: its writer may go on.
  void pass(std::uint64_t sequence) noexcept;
  /// Tells a dynamic slot's writers that left once their last tensors were read.
  void let_drained_go() noexcept;

  /// wait(), for the thread whose turn it is.
  Result<Arrival> take_next(Deadline deadline) noexcept;

  // Streams, which wait or release. Those without "prepare" require the mutex of streams_.
  void prepare_streams(const std::shared_ptr<p2p::cuda::Gpu>& gpu, Deadline until);
  void prepare_releases(const std::shared_ptr<p2p::cuda::Gpu>& gpu);
  p2p::cuda::UserStream user_stream(const char* operation, Stream stream);
  Result<Arrival> wait_by(const p2p::cuda::UserStream& user, Deadline until);
  /// A tensor has come.
  void count_arrival() noexcept;
  /// Before the thread takes the next tensor: until no stream waits for an earlier one, or one has
  /// failed. Takes the mutex.
  Status come_after_streams(Deadline deadline) noexcept;
  /// A stream's wait has failed: says why, and begins anew with its tensor.
  Status resume() noexcept;
  void want_serving(p2p::StreamArrivals& streams);
  /// Whether the tensor is released now. Takes the mutex.
  bool release_by_streams(std::uint64_t sequence, const std::uint32_t* outcome) noexcept;
  /// The slot is closed: the thread waits until the stream is done with the memory. Throws Error.
  Status pass_on_thread(const p2p::cuda::UserStream& user);
  /// Waits, for a time, until no stream works on the memory. Takes the mutex.
  void abandon_streams() noexcept;
  /// Whether the tensor is there; nullopt: not yet.
  std::optional<Status> bring(const p2p::StreamArrivals::Waiting& one) noexcept;
  Status why_broken() noexcept;
  /// `any`: tensors were released otherwise since the last credit.
  void release_what_streams_have_passed(p2p::StreamArrivals& streams, bool any) noexcept;
  Status late_stream() const noexcept;
  /// The progress thread. Takes the mutex. Returns whether something is still to come.
  bool serve_streams() noexcept;
  Status named(const Status& status, std::uint64_t wanted) const;

  // Captured graphs. Where nothing else is said they require the mutex of streams_.
  /// The GPU that a capturing stream must be of; the host's: any.
  Memory captured_memory() const noexcept;
  /// The application's thread; these four take the mutex. Throw Error.
  Result<Arrival> capture_wait(const p2p::cuda::Capture& capture, Deadline deadline);
  void capture_release(const std::uint32_t* outcome, Stream stream);
  /// A graph's own memory for one tensor. Needs no mutex.
  Tensor make_place(Deadline until);
  std::shared_ptr<p2p::GraphCall> held_by_graph(const std::uint32_t* outcome) noexcept;
  void forget_graph_wait(const std::uint32_t* outcome) noexcept;
  /// The thread takes the next tensors, and no graph does until end_turn(): once no run waits that
  /// began before, or, unless `all_have_come`, once each has its tensor's number. They take the
  /// mutex.
  Status begin_turn(Deadline until, bool all_have_come) noexcept;
  void end_turn() noexcept;
  Result<Arrival> wait_beside_graphs(Deadline deadline) noexcept;
  Result<Arrival> wait_by_beside_graphs(const p2p::cuda::UserStream& user, Deadline until);
  /// The progress thread. Runs that have begun take the next tensors. Returns whether tensors were
  /// released.
  bool begin_graph_waits(p2p::StreamArrivals& streams) noexcept;
  void end_late_runs(p2p::StreamArrivals& streams) noexcept;
  /// Two runs of the call are under way: neither gets a tensor.
  void fail_overlap(p2p::StreamArrivals& streams, const p2p::GraphCall& call) noexcept;
  bool release_held(p2p::GraphCall& wait) noexcept;
  /// Copies a tensor that is on the GPU to where its graph has it; nullopt: not yet.
  std::optional<Status> copy_to_place(p2p::StreamArrivals::Waiting& one) noexcept;
  /// The tensor is there. `is_released` is set if it is released with that. Returns false if
  /// another run of the graph's call has begun: the stream has not got it.
  bool has_come(p2p::StreamArrivals::Waiting& one, bool& is_released) noexcept;

  void write_credit(std::uint64_t threshold, p2p::Notify notify) noexcept;
  [[gnu::cold]] void write_wanted_credit() noexcept;
  /// The progress thread may be reporting too: the last to write must have seen the last value.
  /// Returns what is reported.
  [[gnu::cold]] std::uint64_t report_what_streams_release(const Attachment& attachment,
                                                          std::uint64_t reported,
                                                          p2p::Notify notify) noexcept;
  /// The progress thread: a word for all that was released.
  void write_all_credits(const Attachment& attachment) noexcept;
  /// Whether the writer, as far as is known here, has credits left, and giving it more is no mere
  /// store.
  bool may_put_credit_off() const noexcept;
  void flush_credit() noexcept;

  Status wrong_arrival(std::uint64_t wanted, std::uint64_t seen) const;
  Status wait_failure(p2p::WaitEnd end, std::uint64_t wanted) noexcept;

  // Attach and teardown.
  Status grant(p2p::Peer& peer, const p2p::AttachMessage& asked,
               p2p::AttachedMessage& granted) override;
  void refused(const Status& why) override;
  void ended(Attachment& attachment) noexcept override;
  void detached(Attachment& attachment) noexcept override;
  void closing() noexcept override { let_drained_go(); }
  Status writer_taken(const p2p::Peer& peer) const;
  Status in_quarantine(const p2p::Peer& peer) const;
  /// For a slot on a GPU: by which way the writer's tensors come there.
  Status offer_gpu(p2p::Peer& peer, p2p::AttachedMessage& granted);
  void prepare_stage(const p2p::Peer& peer);
  /// Takes what the attachment's puts come by, and says so in the grant.
  void expect_puts(Attachment& attachment, p2p::AttachedMessage& granted);
  /// The same for the chunks of tensors, if there is room to expect them.
  void expect_chunks(Attachment& attachment, p2p::AttachedMessage& granted) noexcept;
  /// The remote end puts no more.
  void expect_no_more(Attachment& attachment) noexcept;

  const SlotSpec spec_;
  const p2p::Notify notify_;
  p2p::PutBuffers buffers_;
  p2p::CreditReports credits_;
  p2p::ReleasedTensors released_;
  p2p::DynamicArrivals dynamic_;
  p2p::RefusedAttach refused_;
  p2p::ToldRefusal refused_put_;
  p2p::HeldArrivals<PutOwner> held_;
  std::atomic<Attachment*> writer_{nullptr};
  std::atomic<int> last_writer_{-1};
  p2p::SharedNumber buffer_{0};        ///< of the next arrival
  p2p::SharedNumber received_{0};      ///< highest sequence handed to the application
  std::atomic<bool> draining_{false};  ///< an attachment waits for its last tensors to be read
  std::unique_ptr<p2p::StreamArrivals> streams_made_;
  std::atomic<p2p::StreamArrivals*> streams_{nullptr};  ///< once they are made
  std::unique_ptr<p2p::GraphWaits> graphs_;             ///< null: no graph waits here
  std::uint64_t reported_silent_ = 0;  ///< came_silently() has told of all up to this one
};

}  // namespace weft::detail
