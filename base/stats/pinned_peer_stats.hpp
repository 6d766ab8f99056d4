// The stats segments of other ranks, kept so that they outlive their ranks.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "base/os/fd.hpp"
#include "base/stats/stats_view.hpp"

namespace weft::stats {

/// A stats segment is there as long as a process has its descriptor. Thread-safety: any thread.
class PinnedPeerStats {
 public:
  void keep(int rank, os::Fd file);
  /// The rank has left in order: nobody will ask.
  void drop(int rank);
  /// None, if this process holds none of that rank. Throws Error(system) for what is no stats
  /// segment.
  std::optional<StatsView> of(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, os::Fd> files_;
};

}  // namespace weft::stats
