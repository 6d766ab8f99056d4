// Executes a schedule: makes its steps as the other ranks' messages arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/collective/reducer.hpp"
#include "runtime/collective/schedule.hpp"
#include "runtime/collective/slot_gpu.hpp"
#include "runtime/collective/slot_link.hpp"

namespace weft::detail {

/// The tensors that a schedule works on, as bytes.
struct ScheduleTensors {
  Tensor in{};
  Tensor sum{};
  Tensor out{};
  std::size_t element = 1;      ///< bytes, in `in` and `out`
  std::size_t sum_element = 1;  ///< bytes, in `sum`
  std::int64_t in_first = 0;    ///< first element in `in`
  std::int64_t out_first = 0;   ///< first element in `out`
};

/// Executes one schedule, any number of times. Steps larger than a piece are made piece by piece.
/// Where a GPU makes them, a step is made once its work has ended, so that what follows from it
/// needs no order between streams and NICs. Allocates memory only in the constructor, but for the
/// works of a GPU.
class ScheduleRun {
 public:
  using Links = std::span<const std::unique_ptr<SlotLink>>;  ///< by rank; null for this rank

  ScheduleRun(Schedule schedule, ScheduleTensors tensors);
  ScheduleRun(const ScheduleRun&) = delete;
  ScheduleRun& operator=(const ScheduleRun&) = delete;

  /// Bytes sent to and received from a peer in one execution; heads carry them.
  std::uint64_t bytes_to(int peer) const noexcept { return bytes(schedule_.sends(peer)); }
  std::uint64_t bytes_from(int peer) const noexcept { return bytes(schedule_.takes(peer)); }

  /// Bytes of the largest piece of an execution, with its head; 0 if nothing moves.
  std::size_t largest_to(int peer) const noexcept { return largest(schedule_.sends(peer)); }
  std::size_t largest_from(int peer) const noexcept { return largest(schedule_.takes(peer)); }
  /// The ranks that messages are exchanged with, ascending.
  std::span<const int> peers() const noexcept { return schedule_.peers(); }

  /// Prepares the next execution.
  void restart() noexcept;
  /// Makes every step that can be made now. `reducer`: of a call that combines, else null. `gpu`:
  /// that makes the steps; null: the processor. Fails if a put has failed. Returns early if a link
  /// has an unexpected head.
  Status step(Links links, Reducer* reducer, SlotGpu* gpu) noexcept;
  /// True if all steps are made; puts may still be outstanding.
  bool made() const noexcept { return made_ == schedule_.moves().size(); }
  /// True if data is still to be received from `peer`.
  bool takes_from(int peer) const noexcept {
    const std::size_t place = schedule_.place(peer);
    return place < ends_.size() && ends_[place].taken < ends_[place].takes.size();
  }
  /// True if a piece of this execution has come from `peer`.
  bool has_part_of(int peer) const noexcept {
    const std::size_t place = schedule_.place(peer);
    return place < ends_.size() && ends_[place].was_greeted;
  }
  /// True if data is still to be sent to `peer`.
  bool sends_to(int peer) const noexcept {
    const std::size_t place = schedule_.place(peer);
    return place < ends_.size() && ends_[place].sent < ends_[place].sends.size();
  }

 private:
  struct End {  ///< progress on one link
    std::span<const std::uint32_t> sends{};
    std::span<const std::uint32_t> takes{};
    std::size_t sent = 0;   ///< steps
    std::size_t taken = 0;  ///< steps
    std::size_t sent_bytes = 0;
    std::size_t taken_bytes = 0;
    bool greeted = false;      ///< the head was sent
    bool was_greeted = false;  ///< the peer's head was received
    GpuWork work{};            ///< on the piece that is held
  };
  static std::size_t index(int at) noexcept { return static_cast<std::size_t>(at); }

  std::size_t largest(std::span<const std::uint32_t> moves) const noexcept;
  std::uint64_t bytes(std::span<const std::uint32_t> moves) const noexcept;
  std::size_t bytes(const Step& move) const noexcept;
  const Tensor& tensor(Step::Place place) const noexcept;
  /// Bytes from the start of the tensor at `place` to the step's region.
  std::size_t offset(const Step& move, Step::Place place) const noexcept;
  std::byte* data(const Step& move, Step::Place place) const noexcept;

  bool is_next(std::uint32_t move) const noexcept;
  void pass(const Step& move) noexcept;
  bool send_some(SlotLink& link, End& end) noexcept;
  bool take_some(SlotLink& link, End& end, Links links, Reducer* reducer, SlotGpu* gpu) noexcept;
  /// Copies or combines a piece that has come. `first`: bytes of the step before it.
  void take(const Step& move, std::size_t first, const std::byte* from, std::size_t bytes,
            Reducer* reducer) noexcept;
  /// The same by the GPU. True once that has ended.
  bool take_by_gpu(const Step& move, const std::byte* from, std::size_t bytes, SlotLink& link,
                   End& end, SlotGpu& gpu) noexcept;
  /// A step of this rank alone, by the GPU. True once that has ended.
  bool make_by_gpu(const Step& move, GpuWork& work, SlotGpu& gpu) noexcept;
  bool make_own(int channel, Reducer* reducer, SlotGpu* gpu) noexcept;
  bool all_out(Links links) const noexcept;

  const Schedule schedule_;
  const ScheduleTensors tensors_;
  std::vector<std::uint32_t> at_;  ///< index of each step in its channel
  std::vector<End> ends_;          ///< by place of the peer
  std::vector<std::uint32_t> channel_made_;
  std::vector<GpuWork> channel_works_;
  std::size_t made_ = 0;
};

}  // namespace weft::detail
