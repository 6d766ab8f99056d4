// The keys of a peer's memory by the ports besides the first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "p2p/transport/verbs/device/verbs_address.hpp"

namespace weft::p2p::verbs {

/// Found by the key of the same chunk by the first link. Thread-safe.
class RemoteKeys {
 public:
  using Keys = std::array<std::uint32_t, kMostRails - 1>;  ///< by link, from the second on

  /// Throws std::bad_alloc.
  void add(std::uint32_t chunk, std::uint32_t first_key, const Keys& keys) {
    const std::lock_guard lock(mutex_);
    by_chunk_[chunk] = first_key;
    keys_[first_key] = keys;
  }
  void remove(std::uint32_t chunk) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = by_chunk_.find(chunk);
    if (found == by_chunk_.end()) return;
    keys_.erase(found->second);
    by_chunk_.erase(found);
  }
  /// nullopt: the chunk is reached by the first link alone.
  std::optional<Keys> find(std::uint32_t first_key) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = keys_.find(first_key);
    if (found == keys_.end()) return std::nullopt;
    return found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_chunk_;
  std::unordered_map<std::uint32_t, Keys> keys_;
};

}  // namespace weft::p2p::verbs
