// Which ranks know which chunks of this rank's GPUs.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace weft::p2p::cuda {

/// Chunks whose descriptors a rank of the host has got: its GPU may write there from then on.
/// Thread-safe.
class ToldChunks {
 public:
  void add(int rank, std::uint32_t chunk) {
    const std::lock_guard lock(mutex_);
    by_rank_[rank].insert(chunk);
  }
  /// All of that rank's, which are forgotten.
  std::set<std::uint32_t> take(int rank) {
    const std::lock_guard lock(mutex_);
    const auto found = by_rank_.find(rank);
    if (found == by_rank_.end()) return {};
    auto chunks = std::move(found->second);
    by_rank_.erase(found);
    return chunks;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::set<std::uint32_t>> by_rank_;
};

}  // namespace weft::p2p::cuda
