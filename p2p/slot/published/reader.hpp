// A reader of a slot that its owner publishes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/slot/attach/awaited.hpp"
#include "p2p/slot/attach/held_arrivals.hpp"
#include "p2p/slot/attach/published_words.hpp"
#include "p2p/slot/attach/remote_end.hpp"
#include "p2p/slot/attach/slot_access.hpp"
#include "p2p/slot/published/gpu_get.hpp"
#include "p2p/slot/published/stream_get.hpp"
#include "p2p/transport/cuda/capture.hpp"
#include "p2p/transport/cuda/mapped_source.hpp"
#include "p2p/transport/reading.hpp"
#include "weft/published_slot.hpp"

namespace weft::detail {

/// PublishedReader's implementation: views versions where they lie, or gets them.
class VersionReader final : public RemoteEnd {
 public:
  VersionReader(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table, p2p::Peer& owner,
                const PublishedSpec& asked, bool take_declared, std::uint64_t id)
      : RemoteEnd(local, mesh, table, owner, asked, take_declared, id) {}

  /// As the owner declared it, once granted.
  const PublishedSpec& spec() const noexcept { return spec_; }

  Result<Arrival> view(Deadline deadline) noexcept;
  Result<Arrival> view(std::span<const SlotRun> runs, Deadline deadline) noexcept;
  Status get(std::span<const SlotRun> runs, Deadline deadline) noexcept;
  Status get(const Tensor& into, Deadline deadline) noexcept;
  /// The stream waits in place of the thread.
  Status get_behind(const Tensor& into, Stream stream, Deadline deadline) noexcept;
  /// Where the GPU finds how the last of those has ended; null: the thread has waited.
  const std::uint32_t* stream_outcome() const noexcept { return stream_outcome_; }
  void release(std::uint64_t version) noexcept;
  p2p::HeldArrivals<VersionReader>& held() noexcept { return arrivals_; }
  bool ready() const noexcept;
  void see_again() noexcept;
  void before_wait() const noexcept {}
  void drop_pending() noexcept override;
  void abandon() noexcept override { drop_stream_get(); }
  bool serve_pending() noexcept override;
  void also_needs(std::span<const int> ranks, Needed needed) override;
  /// The version that a wait for a newer one lacks.
  p2p::Awaited awaited() const;

 private:
  struct Held {  ///< a version viewed, or being got, and not released
    p2p::Newest version;
    p2p::OwnedBlock block;           ///< where the owner's memory can't be loaded from
    std::unique_ptr<Tensor> tensor;  ///< over the block
  };

  Status wrong_target(const Tensor& into) const noexcept;
  /// Why no version fits the tensor, or ok().
  Status check_target(const Tensor& into) const noexcept;
  // To a GPU: reader_gpu.cpp.
  Status get_to_gpu(const Tensor& into, Deadline deadline) noexcept;
  /// Why the tensor can't be got into, or ok().
  Status check_gpu_target(const Tensor& into) const noexcept;
  Status check_wrapped_target(const Tensor& into) const noexcept;
  /// Reads a version into the staging memory unless that holds one that is newer than all seen.
  Status stage_version(Deadline until) noexcept;
  /// Whether GPUs can copy from the owner's buffers where they are mapped here. Throws Error.
  p2p::cuda::Pinning map_versions(Memory gpu);
  /// Begins that. Throws Error.
  p2p::cuda::DeviceCopy copy_mapped(p2p::Newest version, const Tensor& into);
  Status get_mapped(const Tensor& into, Deadline deadline) noexcept;
  Status hold_mapped(const Tensor& into, Deadline until) noexcept;
  /// Gives up what an earlier one has left. Its copy goes on.
  void drop_mapped() noexcept;
  void count_mapped() noexcept {
    row_.gpu_counters().device_copies.add(1);
    is_mapped_.store(true, std::memory_order_relaxed);
    staged_because_.store(nullptr, std::memory_order_relaxed);  // streams waited then
  }
  Status not_copied(std::uint64_t version, const Tensor& into) const noexcept;
  /// Reads straight into the GPU's memory.
  Status get_by_nic(const Tensor& into, Deadline deadline) noexcept;
  /// An error where versions may not be staged. `detail`: why the NIC does not reach the tensor;
  /// `pinning`: why a GPU does not copy from where versions are mapped.
  Status staging_verdict(const std::string& detail, p2p::cuda::Pinning pinning) noexcept;
  void count_staged() noexcept;

  // Behind streams: reader_streams.cpp, reader_moves.cpp. The application's thread.
  /// Owns nothing before streams are used.
  std::unique_lock<std::mutex> lock_stream_get() const noexcept;
  /// Waits until no stream waits for a get, and returns why one has failed, once.
  Status end_stream_get(const char* operation, Deadline until) noexcept;
  /// The same for what the thread's gets have left under way.
  Status end_thread_gets(Deadline until) noexcept;
  /// While one exists, the turn is the thread's, and gets of graphs wait: reader_graphs.cpp.
  class ThreadsTurn {
   public:
    explicit ThreadsTurn(VersionReader& reader) noexcept;
    ThreadsTurn(const ThreadsTurn&) = delete;
    ThreadsTurn& operator=(const ThreadsTurn&) = delete;
    ~ThreadsTurn();
    /// Until take(): for waits which may be for the streams of those gets. Then end_stream_get().
    void pass() noexcept;
    void take() noexcept;

   private:
    VersionReader& reader_;
  };
  Status get_on_thread(const Tensor& into, const p2p::cuda::UserStream& user, Deadline until,
                       ThreadsTurn& turn);
  /// Until no get waits for a stream to come to it, and none goes on. Throws Error.
  void await_get_behind(Deadline until, ThreadsTurn& turn);
  /// Until no stream of this rank waits, and no get goes on. Throws Error.
  void await_all_streams(Deadline until, ThreadsTurn& turn);
  /// Makes beforehand what a get needs while its stream waits. Throws Error.
  p2p::GetWay prepare_stream_get(const p2p::cuda::UserStream& user, const Tensor& into,
                                 Deadline until, ThreadsTurn& turn);
  /// Throws Error.
  void begin_stream_get(const p2p::cuda::UserStream& user, const Tensor& into, Deadline until,
                        p2p::GetWay way);
  stats::WaitAbout about_next() const noexcept;
  Status get_failure(const Status& why) const noexcept;
  // In captured graphs: reader_graphs.cpp.
  /// Throws Error.
  void capture_get(const Tensor& into, const p2p::cuda::Capture& capture, Deadline deadline,
                   ThreadsTurn& turn);
  // Their mutex.
  /// Begins the next run that is due, if no get is open. Returns whether one has begun.
  bool begin_graph_get() noexcept;
  /// Ends the runs that overlap, and those that are late.
  void end_graph_runs() noexcept;
  void fail_run(const p2p::GraphPort::Run& run, const Status& why) noexcept;

  // Their mutex; the progress thread, but for the last.
  /// Begins the get behind a stream if that has come to it, and it is its turn.
  bool begin_get_behind() noexcept;
  void fail_get_behind(const Status& why) noexcept;
  void open_get(const Tensor& into, Deadline until, p2p::GetWay way) noexcept;
  /// For the get that begins: others, into another GPU's memory, may have come between.
  void choose_gpu() noexcept;
  Status beyond_its_time(const char* whose) const noexcept;
  void move_stream_get() noexcept;
  /// One stage further. False: not now, or it has ended.
  bool advance_stream_get() noexcept;
  bool hold_for_stream();
  bool read_for_stream();
  bool land_for_stream();
  void copy_for_stream();
  bool copied_for_stream();
  void finish_stream_get() noexcept;
  Status late_stream_get() const noexcept;
  void fail_stream_get(const Status& why) noexcept;
  void let_stream_go_on(Code code) noexcept;
  /// This end goes. Takes the mutex. Any thread.
  void drop_stream_get() noexcept;

  Result<Arrival> view_runs(std::span<const SlotRun> runs, const Shape& shape,
                            Deadline deadline) noexcept;
  bool is_within(const SlotRun& run) const noexcept;
  Status outside(const char* operation, const SlotRun& run) const noexcept;
  void take_grant(const p2p::AttachedMessage& message, const p2p::Contract& declared,
                  const p2p::GrantedMemory& memory) override;
  /// Whether readers keep the owner from overwriting what they read: by pins where the owner's
  /// memory is loaded from. Otherwise a version is read and then proved to have been whole.
  bool pins() const noexcept { return published_words_ && spec_.flow == Flow::credits; }
  p2p::Newest newest() const noexcept;
  /// With one buffer, the newest version may be about to be overwritten by the next.
  bool is_whole(p2p::Newest version) const noexcept {
    return !pins() || published_words_.version(version.buffer).load(std::memory_order_seq_cst) ==
                          version.version;
  }
  bool pin(p2p::Newest version) noexcept;
  void unpin(std::uint64_t buffer) noexcept;
  /// Holds the version to read `runs` of: that of the interrupted read if it is of the same runs,
  /// or else the newest.
  Result<p2p::Newest> hold(const char* operation, std::span<const SlotRun> runs,
                           Deadline deadline) noexcept;
  Result<p2p::Newest> hold_newest(const char* operation, Deadline until) noexcept;
  void drop_held(std::size_t index) noexcept;
  /// Up to which version the owner of a synchronous slot may overwrite, where it asks.
  void tell_released() noexcept;
  Status no_newer_version(const char* operation, p2p::WaitEnd end) const noexcept;
  void count_reading(p2p::Newest version, std::uint64_t bytes) noexcept;

  // Through the fabric: reader_reads.cpp.
  Status fetch(Held& held, std::span<const SlotRun> runs, const Shape& shape,
               Deadline deadline) noexcept;
  Status get_runs(std::span<const SlotRun> runs, const Tensor* into, Deadline deadline) noexcept;
  /// `into`: a handle of the runs' memory, if there is one. Goes on with an interrupted read.
  Status read(Held& held, std::span<const SlotRun> runs, const Tensor* into,
              Deadline deadline) noexcept;
  /// The read is not over at the deadline: it goes on, or is given up.
  Status unanswered(p2p::Newest version, const Tensor* into) noexcept;
  Status start_reading(p2p::Newest version, std::span<const SlotRun> runs) noexcept;
  Status plan_reading(p2p::Newest version, std::span<const SlotRun> runs) noexcept;
  std::uint64_t finish_reading(std::span<const SlotRun> runs) noexcept;
  /// Goes through the pieces of a planned reading of `runs`.
  template <typename Visit>
  void for_each_piece(p2p::Newest version, std::span<const SlotRun> runs, const Visit& visit) const;
  /// Holds the interrupted read's version again, if that read is one of `runs` and may go on.
  bool resume(std::span<const SlotRun> runs) noexcept;
  bool is_same_read(std::span<const SlotRun> runs) const noexcept;
  /// Cancels the interrupted read, or waits for its end where a NIC may still write.
  Status end_interrupted(const char* operation, Deadline deadline) noexcept;
  std::string unanswered_text(std::string_view what) const;
  const char* unanswered_hint() const noexcept;
  /// Whether a version's word is read before the runs and after them, since nothing keeps the
  /// version from being overwritten.
  bool proves() const noexcept { return !pins() && spec_.flow == Flow::credits; }
  std::size_t bytes_of(const SlotRun& run) const noexcept {
    return static_cast<std::size_t>(run.count) * size_of(spec_.dtype);
  }
  /// Whether a run is read straight into the caller's memory.
  bool is_direct(const SlotRun& run) const noexcept {
    return to_gpu_ || (!lands_all_ && lands(run.to, bytes_of(run)));
  }
  /// Whether the fabric can read into memory of this rank.
  bool lands(const std::byte* to, std::size_t bytes) const noexcept {
    return owner_.channel->capabilities().copies || local_.reachable(to, bytes);
  }
  std::byte* scratch_word(std::size_t index) const noexcept {
    return reading_->words.data() + index * sizeof(std::uint64_t);
  }

  PublishedSpec spec_;
  std::size_t bytes_ = 0;
  bool credits_ = true;  ///< they are kept: the flow asks for it, or WEFT_CHECK=flow
  p2p::RemoteMemory lines_;
  p2p::RemoteMemory buffers_;
  std::uint64_t stride_ = 0;
  p2p::PublishedWords published_words_;  ///< where the owner's memory can be loaded from
  p2p::ReaderWords reader_words_;
  std::uint64_t newest_at_attach_ = 0;
  std::vector<Tensor> views_;  ///< by buffer
  std::uint64_t seen_ = 0;     ///< newest version viewed
  std::vector<Held> held_;
  p2p::HeldArrivals<VersionReader> arrivals_;
  std::unique_ptr<p2p::GpuGet> gpu_get_;  ///< made by the first get to a GPU; outlives `reading_`
  /// Made when first used; its landing is for views, for runs whose memory the fabric can't reach,
  /// and for all runs of reads that must outlast a call.
  std::unique_ptr<p2p::Reading> reading_;
  bool lands_all_ = false;  ///< the reading touches no memory of the caller
  bool to_gpu_ = false;     ///< the call under way reads into a GPU's memory
  /// A get was given up at its deadline. The next one lands first, so it can go on after a timeout
  /// without writing into the caller's memory.
  bool is_slow_ = false;
  bool is_given_up_ = false;  ///< the interrupted read will not be whole: it is only waited for
  std::optional<p2p::Newest> interrupted_;  ///< what `reading_` goes on reading between two calls
  const char* why_staged_ = nullptr;
  std::unique_ptr<p2p::cuda::MappedSource> source_;  ///< the owner's buffers, once GPUs use them
  mutable p2p::StreamGet stream_get_;
  const std::uint32_t* stream_outcome_ = nullptr;
};

}  // namespace weft::detail
