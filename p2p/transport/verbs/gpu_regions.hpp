// GPU memory of this rank that its NIC reads and writes by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/stats/layout.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/gpu_direct.hpp"
#include "p2p/transport/verbs/adopted_regions.hpp"
#include "p2p/transport/verbs/loopback.hpp"
#include "p2p/transport/verbs/region_table.hpp"

namespace weft::p2p::cuda {
class Gpus;
}

namespace weft::p2p::verbs {

class Regions;

/// Chunks of GPUs' arenas, each registered whole when it is first needed: by a dma-buf, or else by
/// its address. A GPU is believed once a page went from host memory to it and back, both ways, by
/// the NIC's loopback. A refusal is kept: it is not tried again. Thread-safe.
class GpuRegions {
 public:
  /// Memory that a loopback reads and writes comes from `staging`, and is registered by `host`.
  /// `gpus`: where the rank's are named, once it has some. All must outlive it.
  GpuRegions(Device& device, Regions& host, std::shared_ptr<Arena> staging,
             cuda::Gpus* const* gpus);

  /// Fails with why the NIC does not reach it.
  Result<RegisteredChunk> of_chunk(std::uint32_t chunk) noexcept;
  /// The key of a range. Takes no lock once its chunk is registered. Fails likewise; with
  /// Code::bad_argument where it lies in no arena on a GPU.
  Result<std::uint32_t> local_key(const std::byte* data, std::size_t bytes) noexcept;

  /// The same; nullptr: its chunk is not registered yet.
  const std::uint32_t* known_key(const std::byte* data, std::size_t bytes) const noexcept {
    const RegionTable::Region* region = table_.find(data, bytes);
    return region == nullptr ? nullptr : &region->local_key;
  }

  /// How the NIC reaches the chunk's GPU, as the proof has shown.
  struct Reach {
    std::string registered_by{};  ///< "dma-buf", or "address" (nvidia-peermem), and why no dma-buf
    cuda::FlushBy flush = cuda::FlushBy::none;
  };
  /// Proves it if that was not done yet. Fails as of_chunk().
  Result<Reach> reach_of(const cuda::GpuChunk& chunk) noexcept;

  /// Copies and kernels of this rank's GPUs see from now on all that the NIC has written there,
  /// once per batch of completions; counts what that took. False: it failed.
  bool flush(stats::Counter& flushes) noexcept;

  /// A thread handles a batch of completions, within which one flush is enough.
  class Batch {
   public:
    Batch() noexcept;
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    ~Batch();
  };

 private:
  /// A GPU, as this NIC reaches it.
  struct Reached {
    std::shared_ptr<cuda::Gpu> gpu;
    cuda::FlushBy flush = cuda::FlushBy::none;
    std::string registered_by{};
    Tensor page;            ///< that proved it
    RemoteMemory page_ref;  ///< the same for the NIC
    Status refusal;         ///< of the proof
  };
  struct Made {
    RegisteredChunk chunk;
    Status refusal;
  };
  Result<RegisteredChunk> find_or_make(const cuda::GpuChunk& chunk) noexcept;
  // With the lock held; throw Error.
  const Made& make(const cuda::GpuChunk& chunk);
  const Made& keep(std::uint32_t chunk, const RegisteredChunk& made);
  /// `by`: as Reach::registered_by.
  RegisteredChunk register_chunk(const cuda::GpuChunk& chunk, std::string* by = nullptr);
  Reached& reach(const cuda::GpuChunk& chunk);
  void prove(Reached& reached, const cuda::GpuChunk& chunk);
  bool flush_one(const Reached& reached) noexcept;
  Loopback::Range here() const noexcept;

  Device& device_;
  Regions& host_;
  const std::shared_ptr<Arena> staging_;
  cuda::Gpus* const* const gpus_;
  std::mutex mutex_;                            ///< of what follows, while memory is registered
  std::vector<std::shared_ptr<Arena>> arenas_;  ///< which hold what is registered
  std::vector<MemoryRegion> handles_;
  std::map<std::uint32_t, Made> made_;  ///< by chunk
  std::map<int, Reached> reached_;      ///< by GPU
  std::unique_ptr<Loopback> loopback_;
  OwnedBlock block_;  ///< pages for it: of proofs, of flushes
  std::uint32_t block_key_ = 0;
  RegionTable table_;
  std::mutex flush_mutex_;
  std::vector<const Reached*> flushed_;  ///< GPUs that need flushes
};

}  // namespace weft::p2p::verbs
