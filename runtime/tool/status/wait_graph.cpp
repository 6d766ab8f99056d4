#include "runtime/tool/status/wait_graph.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace weft::tool {
namespace {

using Graph = std::map<int, std::set<int>>;

std::set<int> all_reached(const Graph& graph, int from) {
  std::set<int> reached;
  std::vector<int> open{from};
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    const auto waits = graph.find(rank);
    if (waits == graph.end()) continue;
    for (const int next : waits->second)
      if (reached.insert(next).second) open.push_back(next);
  }
  return reached;
}

/// A cycle from `start` back to itself, through `members` only.
std::vector<int> circle_from(const Graph& graph, int start, const std::set<int>& members) {
  std::vector<int> way{start};
  std::set<int> seen{start};
  for (;;) {
    const auto& next = graph.at(way.back());
    if (next.contains(start)) return way;
    const auto on = std::ranges::find_if(
        next, [&](int rank) { return members.contains(rank) && !seen.contains(rank); });
    if (on == next.end()) return way;
    way.push_back(*on);
    seen.insert(*on);
  }
}

}  // namespace

HeldUp find_roots(std::span<const WaitsFor> waits) {
  Graph graph;
  std::set<int> choosing;
  for (const WaitsFor& wait : waits) {
    if (wait.from == wait.to || wait.to < 0) continue;
    graph[wait.from].insert(wait.to);
    if (wait.is_one_of_several) choosing.insert(wait.from);
  }

  HeldUp found;
  std::map<int, int> waiters;
  std::set<int> in_circles;
  for (const auto& [rank, _] : graph) {
    const std::set<int> reached = all_reached(graph, rank);
    for (const int root : reached)
      if (!graph.contains(root)) ++waiters[root];
    if (!reached.contains(rank) || in_circles.contains(rank)) continue;
    std::set<int> members;
    for (const int other : reached)
      if (all_reached(graph, other).contains(rank)) members.insert(other);
    in_circles.insert(members.begin(), members.end());
    const bool leads_out =
        std::ranges::any_of(reached, [&](int to) { return !graph.contains(to); });
    const bool may_choose =
        std::ranges::any_of(members, [&](int member) { return choosing.contains(member); });
    if (leads_out && may_choose) continue;
    found.circles.push_back(circle_from(graph, rank, members));
  }
  for (const auto& [rank, count] : waiters) found.laggards.push_back({rank, count});
  std::ranges::stable_sort(found.laggards, std::ranges::greater{}, &Laggard::waiters);
  return found;
}

}  // namespace weft::tool
