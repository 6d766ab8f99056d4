// The cost of a step's transfers in the steady state.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "weft/report.hpp"

namespace charlm {

/// The transfers between two reports of the same world.
struct SteadyState {
  int steps = 0;                        ///< number of steps between the reports
  std::vector<weft::EdgeReport> edges;  ///< counters: the difference; idle edges are left out
  std::vector<weft::PathReport> paths;  ///< counters: the difference

  /// The sum over the edges and paths of this rank. Transfers and bytes moved are counted only at
  /// the end that acts (puts, views), so that a sum over all ranks has each once.
  weft::TransferCounters total() const;
};

SteadyState steady_state(const weft::Report& before, const weft::Report& after, int steps);

/// Counters as numbers for a RankGather, in the order of their declaration.
inline constexpr std::size_t kCounterCount = 7;
std::array<double, kCounterCount> to_values(const weft::TransferCounters& counters);
weft::TransferCounters from_values(std::span<const double> values);

}  // namespace charlm
