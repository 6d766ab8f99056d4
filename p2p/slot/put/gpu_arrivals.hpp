// The last part of the way to a slot on a GPU: from host memory, where puts arrive, to the GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/put/gpu_offer.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// A staging buffer in the data arena for each buffer of the slot, with the copy out of it. The
/// application's thread.
class GpuArrivals {
 public:
  /// `memory`: the slot's buffers on the GPU, each `stride` bytes. Throws Error(exhausted).
  GpuArrivals(LocalRank& local, std::size_t bytes, std::uint32_t depth, const Tensor& memory,
              std::size_t stride);

  /// For writers that need no staging buffers.
  GpuOffer& offer() noexcept { return offer_; }
  const GpuOffer& offer() const noexcept { return offer_; }

  const OwnedBlock& stage() const noexcept { return *stage_; }
  /// From staging buffer to staging buffer.
  std::size_t stride() const noexcept { return stride_; }

  /// Progress thread: tensors above `after` come from a new writer, whose NIC writes them to where
  /// the slot lies, or not.
  void begin_writer(std::uint64_t after, bool by_nic);
  /// Whether that tensor came so.
  bool came_by_nic(std::uint64_t sequence) const noexcept;

  /// Begins to copy tensor `sequence`, which lies in staging buffer `index`, unless that has begun.
  /// Throws Error.
  void begin(std::uint64_t index, std::uint64_t sequence, const Tensor& to);
  /// How that copy ended; nullopt while it is under way. One that failed may begin again. Requires
  /// that it has begun.
  std::optional<Status> poll(std::uint64_t index) noexcept;

 private:
  struct Copy {
    std::uint64_t sequence = 0;  ///< 0: none
    cuda::DeviceCopy copy{};
  };

  LocalRank& local_;
  const std::size_t stride_;
  const std::shared_ptr<const OwnedBlock> stage_;
  std::vector<Copy> copies_;  ///< by buffer
  struct Writer {
    std::uint64_t after = 0;
    bool by_nic = false;
  };
  mutable std::mutex writers_mutex_;
  std::vector<Writer> writers_;  ///< of all tensors that may not have been handed out
  GpuOffer offer_;
};

}  // namespace weft::p2p
