// What the transfers of a step cost once the job has settled.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "weft/report.hpp"

namespace charlm {

/// The work between two reports of the same world.
struct SteadyState {
  int steps = 0;                        ///< that lie between the reports
  std::vector<weft::EdgeReport> edges;  ///< counters: the difference; edges without any left out
  std::vector<weft::PathReport> paths;  ///< counters: the difference

  /// Over the edges and paths of this rank. Transfers and bytes moved count at the end that acts
  /// (puts, views) only, so that summed over the ranks each is there once.
  weft::TransferCounters total() const;
};

SteadyState steady_state(const weft::Report& before, const weft::Report& after, int steps);

/// Counters as numbers that a RankGather can carry, in the order in which they are declared.
inline constexpr std::size_t kCounterCount = 7;
std::array<double, kCounterCount> to_values(const weft::TransferCounters& counters);
weft::TransferCounters from_values(std::span<const double> values);

}  // namespace charlm
