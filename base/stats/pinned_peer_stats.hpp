// Stats segments of other ranks, held so that they outlive their ranks.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "base/os/fd.hpp"
#include "base/stats/stats_view.hpp"

namespace weft::stats {

/// Holds descriptors of stats segments: a segment exists while some process has its descriptor.
/// Thread-safety: any thread.
class PinnedPeerStats {
 public:
  void keep(int rank, os::Fd file);
  /// Drops the segment of a rank that left in order: no one will ask for it.
  void drop(int rank);
  /// The segment of `rank`; nullopt if none is held. Throws Error(system) if the file is not a
  /// stats segment.
  std::optional<StatsView> of(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, os::Fd> files_;
};

}  // namespace weft::stats
