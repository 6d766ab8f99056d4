// The chunks of this rank that one peer may name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "p2p/memory/arena.hpp"

namespace weft::p2p::tcp {

/// Thread-safe.
class Exports {
 public:
  enum class Access : std::uint8_t {
    put,   ///< a tensor, or the line of a slot
    word,  ///< a word of the control memory
    get
  };

  void add(std::uint32_t chunk, std::byte* data, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    chunks_[chunk] = {data, bytes};
  }
  void remove(std::uint32_t chunk) noexcept {
    const std::lock_guard lock(mutex_);
    chunks_.erase(chunk);
  }
  /// Where the range lies; null unless the peer may do that to all of it: what travelled is not
  /// trusted.
  std::byte* find(std::uint32_t chunk, std::uint64_t offset, std::uint64_t bytes,
                  Access access) const noexcept {
    if (!allows(sort_of_chunk(chunk), access)) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = chunks_.find(chunk);
    if (found == chunks_.end() || offset > found->second.bytes ||
        bytes > found->second.bytes - offset)
      return nullptr;
    return found->second.data + offset;
  }

 private:
  struct Chunk {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
  };
  static bool allows(ArenaSort sort, Access access) noexcept {
    switch (sort) {
      case ArenaSort::control:
        return true;
      case ArenaSort::data:
      case ArenaSort::adopted:
        return access != Access::word;
      case ArenaSort::published:
        return access == Access::get;
      case ArenaSort::staging:
      case ArenaSort::device:
        break;
    }
    return false;
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, Chunk> chunks_;
};

}  // namespace weft::p2p::tcp
