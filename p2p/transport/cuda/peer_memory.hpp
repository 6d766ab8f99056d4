// Memory on GPUs that other ranks of the host let this one map.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/os/fd.hpp"
#include "p2p/transport/cuda/exported_chunk.hpp"
#include "p2p/transport/cuda/gpu_way.hpp"
#include "p2p/transport/cuda/mapped_memory.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::cuda {

/// Keeps what has come, maps a chunk when it is first used, and remembers which GPUs are known to
/// reach each other. Thread-safe.
class PeerMemory {
 public:
  /// A chunk of that rank's; `descriptor`: none if this process had no room for it.
  void keep(int rank, std::uint32_t chunk, const ExportedChunk& exported, os::Fd descriptor);

  /// The chunk as that rank has told of it; nullopt: it has not yet, or there was no room.
  std::optional<ExportedChunk> told(int rank, std::uint32_t chunk) const;
  /// Whether there was no room for some chunk of that rank's.
  bool has_dropped(int rank) const;
  static constexpr std::size_t kMostChunks = 4096;  ///< a hostile rank may name more

  struct Range {
    std::uint32_t chunk = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  struct Mapped {
    GpuWay way = GpuWay::mapped;
    Tensor bytes{};        ///< u8, as memory of the GPU that asked; it keeps the mapping
    std::string detail{};  ///< what the driver said, if it refused
  };
  /// A range of a chunk, for copies by the GPU `by`.
  Mapped map(int rank, const Range& range, const std::shared_ptr<Gpu>& by) noexcept;

  /// Whether copies by GPU `by` reach the GPU of a chunk, as found out before: GpuWay::unproven
  /// says that this is not known.
  GpuWay proven(int rank, std::uint32_t chunk, int by) const;
  void prove(int rank, std::uint32_t chunk, int by, GpuWay outcome);
  /// The rank is gone. Memory in use stays mapped until its last use ends.
  void forget(int rank);

 private:
  struct Chunk {
    ExportedChunk exported{};
    os::Fd descriptor{};
    std::shared_ptr<MappedMemory> mapping{};
  };
  using Proof = std::tuple<int, decltype(ExportedChunk::gpu), int>;  ///< rank, its GPU, this one's
  Mapped map_range(int rank, const Range& range, const std::shared_ptr<Gpu>& by);
  const Chunk* find(int rank, std::uint32_t chunk) const;

  mutable std::mutex mutex_;
  std::map<std::pair<int, std::uint32_t>, Chunk> chunks_;
  std::set<int> dropped_;  ///< ranks of which some are missing
  std::map<Proof, GpuWay> proofs_;
};

}  // namespace weft::p2p::cuda
