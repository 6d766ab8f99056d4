// Memory on this rank's GPUs that a dead rank's GPU may still write.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/log.hpp"

namespace weft::p2p::cuda {

class Gpus;

/// Knows which ranks of the host have got which chunks, and keeps those of a rank that dies under
/// MPS. Thread-safe.
class PeerQuarantine {
 public:
  /// `log`: where a death is told; null: nowhere.
  PeerQuarantine(const Gpus& gpus, std::shared_ptr<Log> log);
  PeerQuarantine(const PeerQuarantine&) = delete;
  PeerQuarantine& operator=(const PeerQuarantine&) = delete;

  /// The rank gets the chunk's descriptor: its GPU may write there from then on.
  void tell(int rank, std::uint32_t chunk);
  /// That rank's process has ended without leaving, and none of its memory has been given to others
  /// yet. Under MPS its GPU may go on writing: the chunks that it has got stay with those who use
  /// them, and are given to no others while the world lives. One line tells how much that is.
  /// Returns whether there are such chunks.
  bool begin(int rank) noexcept;
  /// Whether a chunk of this rank's is one of them.
  bool holds(std::uint32_t chunk) const;

 private:
  std::set<std::uint32_t> take(int rank);

  const Gpus& gpus_;
  const std::shared_ptr<Log> log_;
  std::mutex mutex_;
  std::map<int, std::set<std::uint32_t>> told_;  ///< by rank
};

}  // namespace weft::p2p::cuda
