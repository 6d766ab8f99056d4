#include "steady_state.hpp"

#include <algorithm>

namespace charlm {

namespace {

bool same_edge(const weft::EdgeReport& a, const weft::EdgeReport& b) {
  return a.peer == b.peer && a.slot == b.slot && a.role == b.role;
}

// A rank may be attached to the same slot several times: these ends are counted as one edge.
std::vector<weft::EdgeReport> merged(const std::vector<weft::EdgeReport>& edges) {
  std::vector<weft::EdgeReport> out;
  for (const auto& edge : edges) {
    const auto there =
        std::ranges::find_if(out, [&](const auto& other) { return same_edge(edge, other); });
    if (there == out.end())
      out.push_back(edge);
    else
      there->counters += edge.counters;
  }
  return out;
}

bool is_passive(weft::Role role) {
  return role == weft::Role::receives || role == weft::Role::publishes;
}

}  // namespace

weft::TransferCounters SteadyState::total() const {
  weft::TransferCounters sum;
  for (const auto& edge : edges) {
    weft::TransferCounters counters = edge.counters;
    if (is_passive(edge.role)) counters.transfers = counters.bytes_moved = 0;
    sum += counters;
  }
  for (const auto& path : paths) sum += path.counters;
  return sum;
}

SteadyState steady_state(const weft::Report& before, const weft::Report& after, int steps) {
  SteadyState out{.steps = steps, .edges = merged(after.edges), .paths = after.paths};
  const std::vector<weft::EdgeReport> old_edges = merged(before.edges);
  for (auto& edge : out.edges) {
    const auto old =
        std::ranges::find_if(old_edges, [&](const auto& other) { return same_edge(edge, other); });
    if (old != old_edges.end()) edge.counters = edge.counters - old->counters;
  }
  for (auto& path : out.paths) {
    const auto old = std::ranges::find(before.paths, path.peer, &weft::PathReport::peer);
    if (old != before.paths.end()) path.counters = path.counters - old->counters;
  }
  std::erase_if(out.edges, [](const weft::EdgeReport& edge) {
    return std::ranges::all_of(to_values(edge.counters), [](double value) { return value == 0; });
  });
  return out;
}

std::array<double, kCounterCount> to_values(const weft::TransferCounters& c) {
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  return {number(c.transfers),     number(c.bytes_moved),   number(c.bytes_copied),
          number(c.work_requests), number(c.credit_writes), number(c.control_messages),
          number(c.registrations)};
}

weft::TransferCounters from_values(std::span<const double> values) {
  const auto count = [&](std::size_t i) { return static_cast<std::uint64_t>(values[i]); };
  return {count(0), count(1), count(2), count(3), count(4), count(5), count(6)};
}

}  // namespace charlm
