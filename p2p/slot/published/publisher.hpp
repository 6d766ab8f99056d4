// The owner of a slot that it publishes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "p2p/slot/attach/exposed_slot.hpp"
#include "p2p/slot/attach/published_words.hpp"
#include "p2p/slot/published/stream_publishes.hpp"
#include "p2p/transport/cuda/capture.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "weft/published_slot.hpp"

namespace weft::detail {

/// PublishedSlot's implementation: finds a buffer that no reader pins, then announces it.
class Publisher final : public ExposedSlot {
 public:
  Publisher(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table,
            const PublishedSpec& spec, std::uint64_t id);

  const PublishedSpec& spec() const noexcept { return spec_; }

  // The application's thread.
  Result<Tensor> next(Deadline deadline) noexcept;
  Status publish(Deadline deadline) noexcept;
  /// Visible once what is on the stream is done.
  Status publish(Stream stream, Deadline deadline) noexcept;
  int readers() const noexcept;
  void also_needs(std::span<const int> ranks, Needed needed) {
    const auto lock = lock_streams();  // the progress thread reads them where a replay waits
    ExposedSlot::also_needs(ranks, needed);
  }

  // The progress thread.
  void count_quarantine(bool enters) noexcept override;
  EdgeReport report() const override;
  /// Publishes the versions that their streams have come to. Returns whether there are others.
  bool serve() noexcept override;
  /// Those won't be published.
  void end_streams() noexcept override;

 private:
  Status grant(p2p::Peer& peer, const p2p::AttachMessage& asked,
               p2p::AttachedMessage& granted) override;
  /// Takes a buffer to fill, unless a reader pins it, or something fills it. Once streams are used,
  /// requires their mutex, as the next one.
  bool take(std::uint64_t buffer) noexcept;
  std::optional<std::uint64_t> take_any() noexcept;
  /// A version's word is back, over which readers may have gone to sleep.
  void wake_readers() noexcept;
  /// Synchronous: announces that the next version is filled. flow_overrun if a reader lags.
  Status begin_turn(const char* operation) noexcept;
  /// next(), once no buffer is being filled.
  Status take_buffer(Deadline deadline) noexcept;
  Status next_failure(p2p::WaitEnd end) noexcept;
  /// For the application's thread while the progress thread may publish.
  p2p::Newest newest() noexcept {
    const auto lock = lock_streams();
    return newest_;
  }
  /// The tensor that the application fills. Requires `filling_`.
  const Tensor& to_fill() const noexcept { return gpu_ ? gpu_->tensor : tensors_[*filling_]; }
  /// Begins to copy the version to the buffer. Throws Error.
  void begin_copy();
  /// Copies the version from the GPU to the buffer that readers see.
  Status bring_from_gpu(Deadline deadline) noexcept;
  /// Whether versions are copied to where readers see them.
  bool is_copied() const noexcept { return gpu_ && gpu_->tensor.bytes() != 0; }
  void count_copy() noexcept {
    row_.gpu_counters().staged_bytes.add(p2p::payload_bytes(spec_));
    row_.gpu_counters().device_copies.add(1);
  }
  /// The buffer has the newest version from now on. Once streams are used, requires their
  /// mutex, or that no version waits for one.
  void make_newest(std::uint64_t buffer) noexcept;
  /// A copy is about to begin to the buffer. Once streams are used, requires their mutex.
  void touch(std::uint64_t buffer) noexcept {
    if (buffer == newest_.buffer) gpu_->is_newest_whole = false;
  }
  void announce(Attachment& attachment) noexcept;

  // Behind streams: publisher_streams.cpp.
  /// Makes beforehand what versions need whose copies wait for streams. Throws Error.
  void prepare_stream(const p2p::cuda::UserStream& user, Deadline until);
  /// Throws Error.
  void publish_behind(const p2p::cuda::UserStream& user, Deadline until);
  /// Whether the version might keep the last buffer from a replay that its stream waits for.
  bool would_hold_up_graphs() noexcept;
  /// Waits for the stream first, without a buffer. Throws Error.
  void publish_behind_graphs(const p2p::cuda::UserStream& user, Deadline until);
  /// The slot's own copies on that GPU begin behind those on the common stream which count no more.
  /// Throws Error.
  void hold_for_copies(const std::shared_ptr<p2p::cuda::Gpu>& gpu);
  /// Where the driver pins nothing. Throws Error.
  Status publish_on_thread(const p2p::cuda::UserStream& user, Deadline until);
  /// Owns nothing before streams are used. The application's thread.
  std::unique_lock<std::mutex> lock_streams() noexcept;
  /// Waits until no version that is still to be published waits for a stream. False: at the
  /// deadline some did. `and_next`: also until the buffer of the next one in turn is not used, and
  /// takes it.
  bool await_streams(Deadline until, bool and_next = false) noexcept;
  /// Whether a version's buffer is kept from the application by a stream.
  bool is_awaiting_streams() noexcept {
    const auto lock = lock_streams();
    return !streams_.versions.empty();
  }
  /// Why a version did not become visible, once.
  Status take_stream_failure() noexcept;
  Status late_stream(const char* operation) const noexcept;
  Status late_version(const p2p::StreamPublishes::Version& version) const noexcept;
  Status publish_failure(const Status& why) const noexcept;

  // In captured graphs: publisher_graphs.cpp.
  /// Throws Error.
  void capture_publish(const p2p::cuda::Capture& capture, Deadline deadline);
  /// Waits until no copy of a failed call goes on to the buffer to fill. Throws Error.
  void end_failed_copy(Deadline until);
  /// Whether copies may go on to buffers that nothing uses now, of runs that failed, once.
  bool graph_copies_go_on() noexcept;
  // Their mutex.
  /// The buffer that next() gave serves others.
  void give_back_buffer() noexcept;
  /// Begins the copies of runs as far as there are buffers. Returns whether a run has ended.
  bool begin_graph_publishes() noexcept;
  /// Two executables at once: all runs of a call that one of those overlaps fail.
  bool end_overlapping_runs() noexcept;
  /// Begins one run, or ends it. False: there is no buffer yet.
  bool begin_run(const p2p::GraphPort::Run& run) noexcept;
  void add_run(const p2p::GraphPort::Run& run, std::uint64_t buffer);
  void fail_run(const p2p::GraphPort::Run& run, const Status& why) noexcept;
  Status no_buffer() const noexcept;

  const Attachment* pinning_reader(std::uint64_t buffer) const noexcept;
  const Attachment* lagging_reader(std::uint64_t release_needed) const noexcept;

  const PublishedSpec spec_;
  const std::size_t stride_;  ///< from buffer to buffer
  p2p::OwnedBlock words_block_;
  /// Null without elements. Shared with copies from the GPU, which may end after the slot.
  std::shared_ptr<const p2p::OwnedBlock> buffers_;
  const p2p::PublishedWords words_;
  const bool credits_;           ///< they are kept: the flow asks for it, or WEFT_CHECK=flow
  std::vector<Tensor> tensors_;  ///< by buffer
  struct OnGpu {
    Tensor tensor;                              ///< that versions are filled in
    std::optional<p2p::cuda::DeviceCopy> copy;  ///< of the version, under way
    bool copies_go_on = false;                  ///< perhaps, of those that count no more
    std::shared_ptr<p2p::cuda::Gpu> behind{};   ///< likewise on the slot's own stream; null: none
    bool is_newest_whole = false;  ///< no copy has begun to the newest version's buffer since
  };
  std::unique_ptr<OnGpu> gpu_;  ///< null: versions are filled where readers see them
  std::atomic<Attachment*> readers_{nullptr};
  p2p::Newest newest_;
  /// The buffer that next() gave. The application's thread changes it, with the streams' mutex.
  std::optional<std::uint64_t> filling_;
  p2p::StreamPublishes streams_;
  std::atomic<std::uint64_t> writing_{0};  ///< synchronous: the version being filled
};

}  // namespace weft::detail
