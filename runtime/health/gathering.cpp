#include "runtime/health/gathering.hpp"

#include <algorithm>
#include <cstddef>

namespace weft::detail {
namespace {

/// The members of each child's run, the child included, if `count` members are shared out.
std::size_t run_of(std::size_t count, std::size_t fan_out) noexcept {
  return (count + fan_out - 1) / fan_out;
}

}  // namespace

int parent_of(int member, const std::vector<int>& asked, int fan_out) noexcept {
  const auto at = static_cast<std::size_t>(std::ranges::lower_bound(asked, member) - asked.begin());
  std::size_t parent = 0;
  for (std::size_t end = asked.size();;) {
    const std::size_t run = run_of(end - parent - 1, static_cast<std::size_t>(fan_out));
    const std::size_t child = parent + 1 + (at - parent - 1) / run * run;
    if (child == at) return asked[parent];
    parent = child;
    end = std::min(end, child + run);
  }
}

Gathering::Gathering(int size, int fan_out)
    : fan_out_(static_cast<std::size_t>(fan_out)),
      wanted_(static_cast<std::size_t>(size)),
      answered_(wanted_),
      declined_(wanted_),
      alone_(wanted_),
      via_(wanted_.size(), kNobody) {}

void Gathering::want(const Places& members) {
  for (std::size_t m = 0; m < size(); ++m)
    if (members[m]) wanted_[m] = true;
}

void Gathering::ask(const Places& out, const Ask& send) {
  std::vector<std::size_t> open;
  Places none(size());
  for (std::size_t m = 0; m < size(); ++m) {
    if (!is_open(m, out)) continue;
    if (via_[m] != kNobody && out[static_cast<std::size_t>(via_[m])]) {
      via_[m] = kNobody;
      alone_[m] = true;
    }
    if (via_[m] != kNobody) continue;
    if (!alone_[m]) {
      open.push_back(m);
      continue;
    }
    via_[m] = static_cast<int>(m);
    send(via_[m], none);
  }
  const std::size_t run = run_of(open.size(), fan_out_);
  for (std::size_t first = 0; first < open.size(); first += run) {
    const auto child = static_cast<int>(open[first]);
    Places subtree(size());
    for (std::size_t i = first; i < std::min(first + run, open.size()); ++i) {
      via_[open[i]] = child;
      subtree[open[i]] = i != first;
    }
    send(child, subtree);
  }
}

Places Gathering::answered(int child, const Places& members, bool more) {
  Places counted(size());
  for (std::size_t m = 0; m < size(); ++m) {
    counted[m] = members[m] && wanted_[m] && (static_cast<int>(m) == child || via_[m] == child);
    if (counted[m]) answered_[m] = true;
    if (more || answered_[m] || via_[m] != child) continue;
    via_[m] = kNobody;
    (static_cast<int>(m) == child ? declined_ : alone_)[m] = true;
  }
  return counted;
}

int Gathering::awaited(const Places& members, const Places& out) const noexcept {
  for (std::size_t m = 0; m < size(); ++m)
    if (members[m] && is_open(m, out)) return static_cast<int>(m);
  return -1;
}

}  // namespace weft::detail
