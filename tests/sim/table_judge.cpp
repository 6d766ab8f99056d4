#include "tests/sim/table_judge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

namespace weft::tests {
namespace {

using pslib::Consistency;

template <typename... Args>
[[noreturn]] void find(fmt::format_string<Args...> format, Args&&... args) {
  throw std::runtime_error(fmt::format(format, std::forward<Args>(args)...));
}

bool holds_all(const PushShares& shares, const PushShares& others) {
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (others[i] != 0 && shares[i] != others[i]) return false;
  return true;
}

bool holds(const PushShares& shares, std::size_t worker, std::size_t push) {
  return shares[share_index(worker, push)] != 0;
}

}  // namespace

TableJudge::TableJudge(const TableHistory& history)
    : history_(history), code_(history.consistency, history.workers), workers_(history.workers) {}

bool TableJudge::may_drop() const noexcept {
  return history_.consistency.kind == Consistency::Kind::k_of_n &&
         history_.consistency.late == Consistency::Late::dropped;
}

std::size_t TableJudge::gone() const noexcept {
  return static_cast<std::size_t>(std::ranges::count(workers_, true, &Worker::is_gone));
}

void TableJudge::take(const TableEvent& event) {
  switch (event.kind) {
    case TableEvent::Kind::began:
      return begin(event);
    case TableEvent::Kind::pushed:
      ++workers_[event.worker].pushed;
      return;
    case TableEvent::Kind::pulled:
      return pull(event);
    case TableEvent::Kind::closed:
    case TableEvent::Kind::died:
      workers_[event.worker].is_gone = true;
  }
}

void TableJudge::begin(const TableEvent& event) {
  settle();
  pulls_.clear();
  start_ = event.version;
  shards_ = event.shards;
  known_.resize(shards_.size());
  for (Versions& versions : known_) versions.erase(versions.upper_bound(start_), versions.end());
  started_.assign(shards_.size(), std::nullopt);
  for (Worker& worker : workers_) {
    worker.before = worker.pushed;
    worker.is_gone = false;
    worker.version = 0;
    worker.seen.clear();
  }
}

PushShares TableJudge::part(PushShares shares, bool of_this_job) const {
  for (std::size_t worker = 0; worker < workers_.size(); ++worker)
    for (std::size_t push = 1; push <= kMostPushes; ++push)
      if ((push > workers_[worker].before) != of_this_job) shares[share_index(worker, push)] = 0;
  return shares;
}

std::vector<PushShares> TableJudge::read(const TableEvent& event) const {
  const std::span<const float> values(event.values);
  std::vector<PushShares> cells;
  for (std::size_t cell = 0; cell < shards_.size(); ++cell) {
    const auto shares = code_.read(values.subspan(cell * code_.cell(), code_.cell()));
    if (!shares) find("worker {} pulled values that no pushes make", event.worker);
    cells.push_back(*shares);
    // The saved state of several shards is of one version, but may hold different pushes in each
    // shard.
    const auto same = std::ranges::find(shards_, shards_[cell]) - shards_.begin();
    if (part(cells.back(), true) != part(cells[static_cast<std::size_t>(same)], true))
      find("worker {}'s pull of version {} is torn: its shard {} is of two versions", event.worker,
           event.version, shards_[cell]);
  }
  return cells;
}

void TableJudge::pull(const TableEvent& event) {
  Worker& self = workers_[event.worker];
  std::vector<PushShares> cells = read(event);
  pulls_.push_back({event.worker, gone(), event.version, event.contributors});
  std::vector<std::uint64_t>& versions = pulls_.back().versions;
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    const PushShares& shares = cells[cell];
    check_pushes(shares, event.worker);
    versions.push_back(version_of(shares, event.worker));
    check_start(cell, shares, event.worker);
    learn(cell, versions.back(), shares, event.worker);
    if (!self.seen.empty() && !holds_all(shares, self.seen[cell]))
      find("worker {} pulled version {}, without pushes that it saw in version {}", event.worker,
           event.version, self.version);
    check_own(shares, cell, versions.back(), event.worker);
    check_others(shares, versions.back(), event.worker);
  }
  const std::uint64_t least = std::ranges::min(versions);
  if (event.version != least)
    find("worker {}'s pull says version {}, and its values are those of {}", event.worker,
         event.version, least);
  if (event.version < std::max(start_, self.version))
    find("a version went back: worker {} pulled {} after {}", event.worker, event.version,
         std::max(start_, self.version));
  self.version = event.version;
  self.seen = std::move(cells);
}

// All shares of an update add up to one unit.
std::uint64_t TableJudge::version_of(const PushShares& shares, std::size_t worker) const {
  const auto sum = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  if (sum % code_.unit() != 0) find("worker {} pulled a part of an update", worker);
  return sum / code_.unit();
}

void TableJudge::check_pushes(const PushShares& shares, std::size_t reader) const {
  for (std::size_t worker = 0; worker < workers_.size(); ++worker)
    for (std::size_t push = 1; push <= kMostPushes; ++push) {
      const std::uint64_t share = shares[share_index(worker, push)];
      if (share == 0) continue;
      if (push > workers_[worker].pushed)
        find("worker {} pulled a push {} of worker {}, which it has not made", reader, push,
             worker);
      if (code_.unit() % share != 0 || code_.unit() / share > workers_.size())
        find("worker {} pulled push {} of worker {} with a share of {} in {}: it was applied twice",
             reader, push, worker, share, code_.unit());
      if (push - 1 > workers_[worker].before && !may_drop() && !holds(shares, worker, push - 1))
        find("worker {} pulled push {} of worker {} without the one before", reader, push, worker);
    }
}

// A version holds exactly the pushes of former jobs that its checkpoint held, for all workers.
void TableJudge::check_start(std::size_t cell, const PushShares& shares, std::size_t reader) {
  PushShares former = part(shares, false);
  if (!started_[cell]) {
    if (const std::uint64_t version = version_of(former, reader); version != start_)
      find("worker {} pulled what was begun from version {}, the newest checkpoint is of {}",
           reader, version, start_);
    learn(cell, start_, former, reader);
    started_[cell] = std::move(former);
  } else if (*started_[cell] != former) {
    find("worker {} pulled other pushes of former jobs than those of the checkpoint", reader);
  }
}

void TableJudge::learn(std::size_t cell, std::uint64_t version, const PushShares& shares,
                       std::size_t reader) {
  const auto [found, is_new] = known_[cell].emplace(version, shares);
  if (!is_new && found->second != shares)
    find("worker {} pulled other pushes under version {} than was seen before", reader, version);
}

void TableJudge::check_own(const PushShares& shares, std::size_t cell, std::uint64_t version,
                           std::size_t reader) const {
  const Worker& self = workers_[reader];
  if (self.pushed == self.before || holds(shares, reader, self.pushed)) return;
  if (!may_drop()) find("worker {} pulled values without its push {}", reader, self.pushed);
  if (version == version_of(self.seen[cell], reader))
    find("worker {}'s push {} was dropped, and was not late", reader, self.pushed);
}

void TableJudge::check_others(const PushShares& shares, std::uint64_t version,
                              std::size_t reader) const {
  const Consistency& consistency = history_.consistency;
  const Worker& self = workers_[reader];
  const std::size_t clock = self.pushed - self.before;
  const bool is_bsp = consistency.kind == Consistency::Kind::bsp;
  if (is_bsp && version != start_ + clock)
    find("worker {} pulled version {} after {} pushes from {} on", reader, version, clock, start_);
  const std::size_t bound = is_bsp ? 0 : consistency.staleness;
  if ((!is_bsp && consistency.kind != Consistency::Kind::ssp) || clock <= bound) return;
  for (std::size_t other = 0; other < workers_.size(); ++other)
    if ((is_bsp || !workers_[other].is_gone) &&
        !holds(shares, other, workers_[other].before + clock - bound))
      find(
          "worker {} has made {} pushes, and pulled values without push {} of worker {}: the bound "
          "is {}",
          reader, clock, clock - bound, other, bound);
}

void TableJudge::settle() const {
  for (const Versions& versions : known_)
    for (auto next = versions.begin(); next != versions.end();) {
      const auto last = next++;
      if (next != versions.end() && !holds_all(next->second, last->second))
        find("version {} is without pushes of version {}", next->first, last->first);
    }
  for (const Pull& pull : pulls_) check_contributors(pull);
}

// The number of pushes of each worker that are in `version` and not in the last known version
// before it.
std::vector<std::size_t> TableJudge::news(std::size_t cell, std::uint64_t version,
                                          bool& is_next) const {
  const auto found = known_[cell].find(version);
  const auto before = std::prev(found);
  is_next = before->first + 1 == version;
  std::vector<std::size_t> counts(workers_.size());
  for (std::size_t i = 0; i < found->second.size(); ++i)
    counts[i / kMostPushes] += found->second[i] != before->second[i] ? 1 : 0;
  if (!is_next) return counts;
  const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  for (std::size_t i = 0; i < found->second.size(); ++i)
    if (found->second[i] != before->second[i] && found->second[i] * all != code_.unit())
      find("version {} is made of {} pushes, and has a share of {} in {} of one", version, all,
           found->second[i], code_.unit());
  if (std::ranges::max(counts) > 1) find("version {} is made of two pushes of a worker", version);
  return counts;
}

// The version that the job began with names all workers.
void TableJudge::check_contributors(const Pull& pull) const {
  std::vector<bool> may(workers_.size(), false);
  for (std::size_t cell = 0; cell < pull.versions.size(); ++cell) {
    if (pull.versions[cell] == start_) return;
    bool is_next = false;
    const auto counts = news(cell, pull.versions[cell], is_next);
    for (std::size_t worker = 0; worker < counts.size(); ++worker) {
      if (counts[worker] == 0) continue;
      may[worker] = true;
      if (is_next && std::ranges::find(pull.contributors, worker) == pull.contributors.end())
        find("version {} is made of a push of worker {}, and its contributors are {}",
             pull.versions[cell], worker, pull.contributors);
    }
  }
  for (const std::size_t worker : pull.contributors)
    if (!may[worker])
      find(
          "worker {} pulled version {} with worker {} among its contributors, which has no push in "
          "it",
          pull.worker, pull.version, worker);
  if (history_.consistency.kind == Consistency::Kind::k_of_n &&
      pull.contributors.size() <
          std::min<std::size_t>(history_.consistency.k, workers_.size() - pull.gone))
    find("version {} is made by {} workers of {} that are left, k is {}", pull.version,
         pull.contributors.size(), workers_.size() - pull.gone, history_.consistency.k);
}

std::string judge(const TableHistory& history) {
  try {
    TableJudge judge(history);
    for (const TableEvent& event : history.events) judge.take(event);
    judge.settle();
  } catch (const std::runtime_error& wrong) {
    return wrong.what();
  }
  return {};
}

}  // namespace weft::tests
