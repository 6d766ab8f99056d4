// A reader of a slot that its owner publishes.
#pragma once

#include <cstdint>
#include <memory>
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
  void release(std::uint64_t version) noexcept;
  p2p::HeldArrivals<VersionReader>& held() noexcept { return arrivals_; }
  bool ready() const noexcept;
  void see_again() noexcept;
  void before_wait() const noexcept {}
  void drop_pending() noexcept override;
  /// The version that a wait for a newer one lacks.
  p2p::Awaited awaited() const;

 private:
  struct Held {  ///< a version viewed, or being got, and not released
    p2p::Newest version;
    p2p::OwnedBlock block;           ///< where the owner's memory can't be loaded from
    std::unique_ptr<Tensor> tensor;  ///< over the block
  };

  Status wrong_target(const Tensor& into) const noexcept;
  // To a GPU: reader_gpu.cpp.
  Status get_to_gpu(const Tensor& into, Deadline deadline) noexcept;
  /// Why the tensor can't be got into, or ok().
  Status check_gpu_target(const Tensor& into) const noexcept;
  Status check_wrapped_target(const Tensor& into) const noexcept;
  /// Reads a version into the staging memory unless that holds one that is newer than all seen.
  Status stage_version(Deadline until) noexcept;

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
  bool pin(p2p::Newest version) noexcept;
  void unpin(std::uint64_t buffer) noexcept;
  /// Holds the version to read `runs` of: that of the interrupted read if it is of the same runs,
  /// or else the newest.
  Result<p2p::Newest> hold(const char* operation, std::span<const SlotRun> runs,
                           Deadline deadline) noexcept;
  Result<p2p::Newest> hold_newest(const char* operation, Deadline until) noexcept;
  void drop_held(std::size_t index) noexcept;
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
    return !lands_all_ && lands(run.to, bytes_of(run));
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
  /// A get was given up at its deadline. The next one lands first, so it can go on after a timeout
  /// without writing into the caller's memory.
  bool is_slow_ = false;
  bool is_given_up_ = false;  ///< the interrupted read will not be whole: it is only waited for
  std::optional<p2p::Newest> interrupted_;  ///< what `reading_` goes on reading between two calls
};

}  // namespace weft::detail
