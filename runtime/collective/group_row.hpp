// A group of collectives as tools see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/stats/failure_row.hpp"
#include "base/stats/stats_segment.hpp"

namespace weft::detail {

/// "group of ranks 0-3"; the second group of these ranks is "group 2 of ranks 0-3". Alike on all
/// ranks of a group. `nth`: from 0.
std::string group_text(std::span<const int> ranks, std::uint64_t nth);

struct GroupRow {
  GroupRow(const std::shared_ptr<stats::StatsSegment>& stats, std::span<const int> ranks,
           std::uint64_t nth)
      : number(stats->other_number()),
        edge(stats, {.name = group_text(ranks, nth), .slot = number, .role = stats::kCalls}),
        failure(stats) {
    awaited.reserve(ranks.size());
  }

  const std::uint64_t number;  ///< in the records
  stats::EdgeRow edge;         ///< its transfers are calls
  stats::FailureRow failure;
  std::atomic<std::uint64_t> bytes_copied{0};
  std::atomic<std::uint64_t> bytes_staged{0};
  std::vector<int> awaited;  ///< room for a wait's entry, which must not allocate
};

}  // namespace weft::detail
