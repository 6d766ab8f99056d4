// The parts of a report that tests need.
#pragma once

#include <stdexcept>
#include <string>

#include "weft/report.hpp"
#include "weft/world.hpp"

namespace weft::tests {

/// The counters of the one end of `slot` that has this role.
inline TransferCounters edge_counters(const World& world, const std::string& slot, Role role) {
  for (const auto& edge : world.report().edges)
    if (edge.slot == slot && edge.role == role) return edge.counters;
  throw std::runtime_error("the report has no edge for slot " + slot);
}

/// Everything that this rank counted, on slots and on paths.
inline TransferCounters all_counters(const World& world) {
  TransferCounters sum;
  const auto report = world.report();
  for (const auto& edge : report.edges) sum += edge.counters;
  for (const auto& path : report.paths) sum += path.counters;
  return sum;
}

inline ArenaReport arena(const World& world, const std::string& sort) {
  for (const auto& arena : world.report().arenas)
    if (arena.sort == sort) return arena;
  throw std::runtime_error("the report has no arena of the sort " + sort);
}

}  // namespace weft::tests
