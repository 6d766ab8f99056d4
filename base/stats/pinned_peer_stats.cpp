#include "base/stats/pinned_peer_stats.hpp"

#include <utility>

namespace weft::stats {

void PinnedPeerStats::keep(int rank, os::Fd file) {
  const std::lock_guard lock(mutex_);
  files_.insert_or_assign(rank, std::move(file));
}

void PinnedPeerStats::drop(int rank) {
  const std::lock_guard lock(mutex_);
  files_.erase(rank);
}

std::optional<StatsView> PinnedPeerStats::of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto held = files_.find(rank);
  if (held == files_.end()) return std::nullopt;
  return StatsView::open(held->second);
}

}  // namespace weft::stats
