// The chunks of one peer that this rank may name.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "p2p/transport/put_work.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// Thread-safe.
class RemoteChunks {
 public:
  explicit RemoteChunks(int peer) noexcept : peer_(peer) {}

  /// `first`: the chunk's first byte, as the fabric names it. Throws std::bad_alloc.
  void add(std::uint32_t chunk, RemoteMemory first, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    chunks_[chunk] = {first, bytes};
  }
  void remove(std::uint32_t chunk) noexcept {
    const std::lock_guard lock(mutex_);
    chunks_.erase(chunk);
  }
  /// As Channel::resolve().
  Result<RemoteMemory> resolve(const MemoryRef& ref) const noexcept;

 private:
  struct Chunk {
    RemoteMemory first;
    std::uint64_t bytes = 0;
  };

  const int peer_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, Chunk> chunks_;
};

}  // namespace weft::p2p
