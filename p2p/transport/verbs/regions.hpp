// The memory of this rank that its NIC knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/verbs/adopted_regions.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/gpu_regions.hpp"
#include "p2p/transport/verbs/region_table.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {

/// Chunks are registered whole, each once, when they are first needed. Peers may write and read the
/// control and data arenas, adopted memory and that of GPUs, read the published arena, and know
/// nothing of the staging one. Thread-safe.
class Regions {
 public:
  using Lease = AdoptedRegions::Lease;
  struct Memory {
    std::shared_ptr<Arena> control;
    std::shared_ptr<Arena> data;
    std::shared_ptr<Arena> published;
    std::shared_ptr<Arena> staging;
    std::shared_ptr<AdoptedMemory> adopted;
    cuda::Gpus* const* gpus = nullptr;  ///< where the rank's are named, once it has some
  };

  /// `device` must outlive it.
  Regions(Device& device, Memory memory, AdoptedRegions::Limits limits = {});

  /// The address and key by which a peer reaches a chunk, an adopted region's too. Fails with
  /// Code::exhausted or Code::system (Device::register_memory), and Code::bad_argument for a chunk
  /// that is none, or that no peer may know.
  Result<RegisteredChunk> of_chunk(std::uint32_t chunk) noexcept;

  /// The key of a range in one of the arenas, for this rank's own work requests. Takes no lock once
  /// the chunk is registered. Code::bad_argument: it lies in none; otherwise as of_chunk().
  Result<std::uint32_t> local_key(const std::byte* data, std::size_t bytes) noexcept {
    if (const RegionTable::Region* region = table_.find(data, bytes)) return region->local_key;
    return register_around(data, bytes);
  }

  /// An adopted region, for one operation of this rank's. Fails as of_chunk().
  Result<Lease> lend(std::uint32_t adopted_chunk) noexcept;
  /// Memory on GPUs; null: the rank has none.
  GpuRegions* gpu() noexcept { return gpu_.get(); }

  std::uint64_t registrations() const noexcept { return counts_.registrations; }
  std::uint64_t registered_bytes() const noexcept { return counts_.bytes; }

 private:
  Result<std::uint32_t> register_around(const std::byte* data, std::size_t bytes) noexcept;
  /// Throws as Device::register_memory.
  RegisteredChunk chunk_of(const Arena& arena, std::uint32_t chunk);
  /// Null: not an arena's chunk.
  const Arena* arena_of(std::uint32_t chunk) const noexcept;

  Device& device_;
  const Memory memory_;
  RegionCounts counts_;
  std::mutex mutex_;  ///< of the three
  std::unordered_map<std::uint32_t, RegisteredChunk> chunks_;
  std::vector<MemoryRegion> handles_;
  RegionTable table_;
  AdoptedRegions adopted_;
  std::unique_ptr<GpuRegions> gpu_;  ///< the first to go
};

}  // namespace weft::p2p::verbs
