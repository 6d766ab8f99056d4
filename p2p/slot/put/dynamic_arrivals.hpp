// Tensors of a dynamic slot at the owner: the one that is being read, and those that are held.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpu_way.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/reading.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {

/// The record says shape and place; the owner makes room and reads. The application's thread's.
class DynamicArrivals {
 public:
  /// `spec` and the counters are the slot's and must outlive it.
  DynamicArrivals(LocalRank& local, Mesh& mesh, const SlotSpec& spec, std::uint64_t slot_id,
                  EdgeCounters& counters, GpuCounters& gpu_counters)
      : local_(local),
        mesh_(mesh),
        spec_(spec),
        id_(slot_id),
        counters_(counters),
        gpu_counters_(gpu_counters) {}
  ~DynamicArrivals() { end(); }
  DynamicArrivals(const DynamicArrivals&) = delete;
  DynamicArrivals& operator=(const DynamicArrivals&) = delete;

  void allocate_with(AllocateTensor allocate) { allocate_ = std::move(allocate); }

  /// Whether tensor `sequence` is being read, perhaps since an earlier wait.
  bool is_reading(std::uint64_t sequence) const noexcept { return reading_.sequence == sequence; }
  /// Whether the memory that `record` names can be reached; waits for the writer's answer if its
  /// chunk is not known here yet. timeout: it may be tried again.
  Status find(std::uint64_t sequence, const DynamicRecord& record, const Shape& shape,
              Deadline until) noexcept;
  /// Makes room for a tensor of `shape`.
  Status begin(std::uint64_t sequence, const DynamicRecord& record, const Shape& shape) noexcept;
  /// Reads it. After a timeout the next call goes on.
  Status read(Deadline until) noexcept;
  /// Gives up what is under way, which keeps what is lent to it for as long as it must.
  void end() noexcept;
  /// Ends the tensor's reading. `kept`: it is held from now on; otherwise its memory goes.
  const Tensor& finish(bool kept) noexcept;
  /// The application has let go of it.
  void forget(std::uint64_t sequence) noexcept;
  /// The way of the latest tensor that went to a GPU. Any thread.
  cuda::GpuWay way() const noexcept {
    return by_nic_.load(std::memory_order_relaxed) ? cuda::GpuWay::nic : cuda::GpuWay::other_host;
  }
  /// The rank that it is read from.
  int source() const noexcept { return reading_.record.rank; }

 private:
  struct Held {
    std::uint64_t sequence = 0;  ///< 0: free
    Tensor tensor;
  };
  struct BeingRead {
    std::uint64_t sequence = 0;  ///< 0: none
    DynamicRecord record;
    Held* place = nullptr;
    bool started = false;
    std::unique_ptr<Reading> reading;
    /// To the GPU that has the tensor, from where it has landed.
    std::optional<cuda::DeviceCopy> copy;
  };
  /// Memory for a tensor of `shape`: from the allocator given, or an arena.
  Tensor make_room(const Shape& shape);
  /// The tensor is in the landing: brings it to its place.
  Status move_on(Deadline until) noexcept;
  Result<RemoteMemory> resolve(std::uint64_t sequence, const DynamicRecord& record,
                               std::size_t bytes, Deadline until) noexcept;
  Status start(const RemoteMemory& from) noexcept;
  Status failure(Code code, std::string_view message, std::string_view hint) const noexcept;
  /// An error that another part of weft made, as one of this slot's wait.
  Status as_wait(const Status& status) const noexcept;
  stats::WaitAbout about(std::uint64_t sequence, int peer) const noexcept {
    return {.operation = stats::Operation::wait, .peer = peer, .slot = id_, .sequence = sequence};
  }

  LocalRank& local_;
  Mesh& mesh_;
  const SlotSpec& spec_;
  const std::uint64_t id_;
  EdgeCounters& counters_;
  GpuCounters& gpu_counters_;
  AllocateTensor allocate_;
  std::atomic<bool> by_nic_{false};
  std::vector<std::unique_ptr<Held>>
      held_;  ///< tensors that were read and not released, and free places
  BeingRead reading_;
};

}  // namespace weft::p2p
