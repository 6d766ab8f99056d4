// The last part of the way to a slot on a GPU: from host memory, where puts arrive, to the GPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/put/chunk_words.hpp"
#include "p2p/slot/put/gpu_offer.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// A staging buffer in the data arena for each buffer of the slot, with the copies out of it.
/// Thread-safe.
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

  // The progress thread.
  /// Makes room to follow the chunks of these words, once. They must outlive it. Throws
  /// std::bad_alloc, and then has none.
  void prepare_chunks(const ChunkWords& words);
  /// A new writer puts tensors in chunks, and sets the words above `above` then. Requires that they
  /// are prepared.
  void expect_chunks(std::uint64_t above) noexcept;
  /// The writer does not, or is none any more: from now on no copy begins before a tensor is there.
  void expect_no_chunks() noexcept;
  bool expects_chunks() const noexcept {
    return chunks_above_.load(std::memory_order_relaxed) != kNoChunks;
  }
  /// Whether the GPU may still write to the slot for an earlier writer.
  bool is_copying() noexcept;

  /// Begins to copy those chunks of tensor `sequence` that are in staging buffer `index`, before
  /// all are. A failure is met when the tensor is there.
  void begin_early(std::uint64_t index, std::uint64_t sequence, const Tensor& to) noexcept;
  /// Begins to copy tensor `sequence`, which lies in staging buffer `index`, or what is left of it,
  /// unless that has begun. Throws Error.
  void begin(std::uint64_t index, std::uint64_t sequence, const Tensor& to);
  /// How that copy ended; nullopt while it is under way. One that failed may begin again. Requires
  /// that it has begun.
  std::optional<Status> poll(std::uint64_t index) noexcept;

 private:
  struct Chunk {
    std::uint64_t word = 0;  ///< the last number that was acted upon
    bool counts = false;     ///< it was copied by that number, for the tensor that is awaited
    bool has_begun = false;  ///< the copy, for any tensor
    cuda::DeviceCopy copy{};
  };
  struct Copy {
    std::uint64_t sequence = 0;  ///< of the whole tensor's copy; 0: none
    cuda::DeviceCopy copy{};     ///< of all that no chunk of it has brought
    std::uint64_t early = 0;     ///< the sequence that the chunks are of
    std::size_t next = 0;        ///< the first chunk that has not come early
    std::vector<Chunk> chunks{};
  };
  static constexpr std::uint64_t kNoChunks = std::numeric_limits<std::uint64_t>::max();
  /// A copy that did not begin as it should may write all the same, and nobody follows it.
  void lose_sight() noexcept { may_write_ = true; }
  /// The chunks that were copied after they had come for good.
  std::size_t good_chunks(std::uint64_t index, std::uint64_t sequence) const noexcept;

  LocalRank& local_;
  const std::shared_ptr<cuda::Gpu> gpu_;
  const std::size_t stride_;
  const std::shared_ptr<const OwnedBlock> stage_;
  std::mutex copies_mutex_;
  std::vector<Copy> copies_;  ///< by buffer
  bool may_write_ = false;    ///< a copy that is none of these
  const ChunkWords* words_ = nullptr;
  std::atomic<std::uint64_t> chunks_above_{kNoChunks};  ///< changes under the mutex
  struct Writer {
    std::uint64_t after = 0;
    bool by_nic = false;
  };
  mutable std::mutex writers_mutex_;
  std::vector<Writer> writers_;  ///< of all tensors that may not have been handed out
  GpuOffer offer_;
};

}  // namespace weft::p2p
