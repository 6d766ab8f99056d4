// Memory on this rank's GPUs that the GPU of a rank that is gone may still write.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/log.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/gpu_direct.hpp"

namespace weft::p2p::cuda {

/// How a rank's part in the job has ended.
enum class RankEnd : std::uint8_t {
  died,  ///< its process has ended without leaving: under MPS its GPU may go on writing
  left   ///< and it has told that its GPU still works, under MPS or not
};

/// Knows which ranks of the host have got which chunks, and keeps those of a rank that is gone
/// while its GPU may still write. Thread-safe. No call waits for an allocation.
class PeerQuarantine {
 public:
  /// `log`: where an end is told; null: nowhere.
  explicit PeerQuarantine(std::shared_ptr<Log> log);
  PeerQuarantine(const PeerQuarantine&) = delete;
  PeerQuarantine& operator=(const PeerQuarantine&) = delete;

  /// The rank gets the chunk's descriptor: its GPU may write there from then on.
  void tell(int rank, const GpuChunk& chunk);
  /// That rank is gone, and none of its memory has been given to others yet. If its GPU may go on
  /// writing, the chunks that it has got stay with those who use them, and are given to no others
  /// while the world lives. One line tells how much that is. Returns whether there are such chunks.
  bool begin(int rank, RankEnd end) noexcept;
  /// Whether a chunk of this rank's is one of them because of that rank.
  bool holds(int rank, std::uint32_t chunk) const;
  /// Whether there are such chunks because of that rank.
  bool has(int rank) const;

 private:
  struct Told {
    std::shared_ptr<Arena> arena;
    std::uint64_t bytes = 0;
    bool under_mps = false;
    bool is_held = false;  ///< in quarantine because of the rank
  };

  const std::shared_ptr<Log> log_;
  mutable std::mutex mutex_;
  std::map<int, std::map<std::uint32_t, Told>> told_;  ///< by rank and chunk
};

}  // namespace weft::p2p::cuda
