#include "runtime/tool/status/job_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>

#include "runtime/tool/plain_text.hpp"
#include "weft/deadline.hpp"

namespace weft::tool {
namespace {

/// The state of a rank according to one peer's path to it.
RankState state_by(const stats::PathEntry& path) {
  switch (path.state.load()) {
    case stats::PathState::joining:
      return RankState::joining;
    case stats::PathState::failed:
      return RankState::dead;
    case stats::PathState::left:
      return RankState::left;
    default:
      break;
  }
  switch (static_cast<PeerHealth>(path.health.load())) {
    case PeerHealth::slow:
      return RankState::slow;
    case PeerHealth::suspect:
      return RankState::suspect;
    case PeerHealth::dead:
      return RankState::dead;
    default:
      return RankState::alive;
  }
}

/// Precedence of a state when peers disagree: the highest weight counts.
int weight(RankState state) {
  constexpr std::array<int, 7> weights{1, 2, 3, 4, 6, 5, 0};
  return weights[static_cast<std::size_t>(state)];
}

void hear(RankStatus& rank, const stats::PathEntry& path) {
  const RankState said = state_by(path);
  if (rank.host.empty()) rank.host = plain(path.host.get());
  if (rank.pid == 0) rank.pid = path.pid;
  // A rank's own stats segment is more reliable than a peer's about whether the rank has joined.
  if (rank.seen == SeenBy::itself && said == RankState::joining) return;
  if (weight(said) <= weight(rank.state)) return;
  rank.state = said;
  rank.condition = plain(path.condition.get());
}

double seconds_since(std::uint64_t moment_ns) {
  const std::uint64_t now = stats::ns_of(Clock::now());
  return now <= moment_ns ? 0 : static_cast<double>(now - moment_ns) / 1e9;
}

TableStatus table_status(const stats::TablePage& page) {
  const auto load = [](const stats::Word& word) { return word.load(std::memory_order_relaxed); };
  const stats::TableWorkerLine& worker = page.worker;
  const stats::TableShardLines& shard = page.shard;
  const double age = seconds_since(page.start_monotonic_ns);
  TableStatus table{.server = plain(page.server.data()),
                    .table = plain(page.table.data()),
                    .is_sparse = page.is_sparse != 0,
                    .works = page.works != 0,
                    .serves = page.serves != 0,
                    .pushes = worker.pushes.get(),
                    .pulls = worker.pulls.get(),
                    .bytes_pushed = worker.bytes_pushed.get(),
                    .bytes_pulled = worker.bytes_pulled.get(),
                    .waited = static_cast<double>(worker.waited_ns.get()) / 1e9,
                    .version = load(worker.version),
                    .bytes_spared = load(page.compression.bytes_spared),
                    .compressing = static_cast<double>(load(page.compression.nanoseconds)) / 1e9,
                    .residual_norm = std::bit_cast<double>(load(page.compression.residual_norm)),
                    .staged_bytes = page.gpu.staged_bytes.get(),
                    .device_copies = page.gpu.device_copies.get(),
                    .shard_version = load(shard.version),
                    .requests = load(shard.requests),
                    .queue = load(shard.queue),
                    .load = age > 0 ? static_cast<double>(shard.busy_ns.get()) / 1e9 / age : 0,
                    .bytes_read = load(shard.bytes_read),
                    .bytes_written = load(shard.bytes_written),
                    .memory = load(shard.memory),
                    .rows = load(shard.rows),
                    .staleness = {}};
  for (const stats::Word& count : page.staleness) table.staleness.push_back(load(count));
  while (!table.staleness.empty() && table.staleness.back() == 0) table.staleness.pop_back();
  return table;
}

/// "slot "a" from rank 1".
std::string text_of(const stats::ShownEdge& edge) {
  const Role role = edge.report.role;
  const bool sends = role == Role::puts || role == Role::publishes;
  std::string text = fmt::format("\"{}\"", plain(edge.report.slot));
  if (edge.report.peer >= 0)
    text += fmt::format(" {} rank {}", sends ? "to" : "from", edge.report.peer);
  return text;
}

/// Whether any rank's message would end the wait.
bool is_from_any(const WaitStatus& wait) {
  const bool receives =
      wait.operation == stats::Operation::recv || wait.operation == stats::Operation::probe;
  return receives && wait.peers.empty();
}

/// Adds the slots that wait_any or a server awaits, or the ranks that another wait does.
void read_awaited(WaitStatus& to, const stats::ShownWait& wait,
                  std::span<const stats::ShownEdge> edges) {
  const auto awaited = std::span(wait.details.awaited).first(wait.details.count);
  to.is_one_of_several =
      to.operation == stats::Operation::any || to.operation == stats::Operation::serve;
  if (to.peer >= 0) to.peers.push_back(to.peer);
  if (is_from_any(to) && awaited.empty()) to.is_one_of_several = true;
  for (const std::uint64_t number : awaited) {
    const std::uint64_t rank = number & ~stats::kAwaitedRank;
    int peer = static_cast<int>(std::min<std::uint64_t>(rank, 0xffffff));
    if (to.is_one_of_several && rank == number) {
      const auto edge = std::ranges::find(edges, number, &stats::ShownEdge::slot);
      if (edge == edges.end()) continue;
      peer = edge->report.peer;
      to.text += (to.text.empty() ? "" : ", ") + text_of(*edge);
    }
    if (peer >= 0 && std::ranges::find(to.peers, peer) == to.peers.end()) to.peers.push_back(peer);
  }
  if (to.is_one_of_several) std::ranges::sort(to.peers);
}

WaitStatus wait_status(const stats::ShownWait& wait, std::string slot,
                       std::span<const stats::ShownEdge> edges) {
  WaitStatus to{.operation = wait.about.operation,
                .peer = wait.about.peer,
                .slot = std::move(slot),
                .sequence = wait.about.sequence,
                .seconds = seconds_since(wait.since_ns),
                .text = plain(wait.details.text()),
                .within = plain(wait.within),
                .bytes = wait.details.bytes,
                .tag = wait.details.tag,
                .mask = wait.details.mask,
                .executor = wait.about.executor,
                .more = wait.about.more};
  read_awaited(to, wait, edges);
  return to;
}

void read_stats(RankStatus& rank, const FoundRank& found) {
  const stats::SegmentIdentity& identity = found.stats.identity();
  rank.seen = found.pid == 0 ? SeenBy::keeper : SeenBy::itself;
  rank.state = found.pid == 0 ? RankState::dead : RankState::alive;
  rank.host = plain(identity.host.data());
  for (const stats::TableView& table : found.tables)
    rank.tables.push_back(table_status(table.page()));
  for (const stats::ShownExecutor& one : found.stats.executors())
    if (one.live)
      rank.executors.push_back({one.number, plain(one.name), one.begun, one.ended, one.failed});
  rank.rejected_connections = found.stats.totals().rejected_connections.load();
  rank.pid = found.pid == 0 ? identity.pid : found.pid;
  for (const stats::PathEntry& path : found.stats.paths())
    if (const std::uint64_t lost = path.counters.rails_lost.get(); lost != 0)
      rank.rails.push_back({path.peer, lost, path.counters.rails_back.get()});
  const auto edges = found.stats.edges();
  const auto name_of = [&](std::uint64_t slot) -> std::string {
    const auto edge = std::ranges::find(edges, slot, &stats::ShownEdge::slot);
    return slot == 0 || edge == edges.end() ? "" : plain(edge->report.slot);
  };
  if (found.pid != 0)
    for (const stats::ShownWait& wait : found.stats.waits())
      rank.waits.push_back(wait_status(wait, name_of(wait.about.slot), edges));
  for (const stats::ShownFailure& from : found.stats.failures())
    rank.failures.push_back({from.operation, from.peer, std::string(weft::name(from.code)),
                             name_of(from.slot), from.sequence, from.count,
                             seconds_since(from.since_ns), plain(from.text)});
  for (const stats::ShownEdge& edge : edges) {
    const std::uint64_t done = edge.report.counters.transfers;
    std::uint64_t begun = done + edge.pending;
    const std::string slot = plain(edge.report.slot);
    for (const WaitStatus& wait : rank.waits)
      if (wait.slot == slot && edge.report.role != Role::puts &&
          wait.operation != stats::Operation::attach && wait.sequence > done)
        begun = std::max(begun, done + 1);
    rank.edges.push_back({slot, edge.report.role, edge.report.peer, {done, begun}});
    Progress& sum = rank.progress[static_cast<std::size_t>(edge.report.role)];
    sum.completed += done;
    sum.started += begun;
  }
}

}  // namespace

std::string_view name(RankState state) noexcept {
  constexpr std::array<std::string_view, 7> names{"JOINING", "ALIVE", "SLOW",   "SUSPECT",
                                                  "DEAD",    "LEFT",  "UNKNOWN"};
  return names[static_cast<std::size_t>(state)];
}

std::string_view name(SeenBy seen) noexcept {
  constexpr std::array<std::string_view, 3> names{"itself", "kept", "peers"};
  return names[static_cast<std::size_t>(seen)];
}

JobStatus status_of(const FoundJob& job, double least_seconds) {
  JobStatus status{.id = job.id, .user = job.user, .size = job.size, .ranks = {}, .held_up = {}};
  for (int rank = 0; rank < job.size; ++rank) {
    RankStatus unseen;
    unseen.rank = rank;
    status.ranks.push_back(std::move(unseen));
  }
  const auto at = [&](int rank) -> RankStatus* {
    return rank < 0 || rank >= job.size ? nullptr : &status.ranks[static_cast<std::size_t>(rank)];
  };
  for (const FoundRank& found : job.ranks)
    if (RankStatus* rank = at(found.stats.identity().rank)) read_stats(*rank, found);
  std::vector<WaitsFor> waits;
  std::vector<WaitsFor> serving;
  std::vector<WaitsFor> counted;
  // A dead rank's view of its peers is outdated.
  for (const FoundRank& found : job.ranks)
    for (const stats::PathEntry& path : found.stats.paths())
      if (RankStatus* rank = at(path.peer);
          found.pid != 0 && rank != nullptr && path.peer != found.stats.identity().rank)
        hear(*rank, path);
  for (const FoundRank& found : job.ranks) {
    const int self = found.stats.identity().rank;
    // A stopped rank does not wait for any rank: its awaited data may have arrived long ago.
    if (const RankStatus* rank = at(self); rank != nullptr && found.pid != 0 && !found.stopped)
      for (const WaitStatus& wait : rank->waits)
        if (wait.seconds >= least_seconds) {
          auto& to = wait.operation == stats::Operation::serve ? serving : waits;
          for (const int peer : wait.peers) to.push_back({self, peer, wait.is_one_of_several});
          if (is_from_any(wait))
            for (const RankStatus& other : status.ranks)
              if (other.state != RankState::left && other.state != RankState::dead)
                to.push_back({self, other.rank, true});
        }
  }
  // Without WEFT_DEAD_AFTER no peer judges a rank that is stopped.
  for (const FoundRank& found : job.ranks)
    if (RankStatus* rank = at(found.stats.identity().rank);
        rank != nullptr && found.stopped && rank->condition.empty())
      rank->condition = "stopped, by a signal or a debugger";
  // A server always waits for its workers. That holds up others only if these wait for it.
  for (const WaitsFor& serves : serving)
    if (std::ranges::any_of(waits, [&](const WaitsFor& wait) { return wait.to == serves.from; }))
      counted.push_back(serves);
  counted.insert(counted.end(), waits.begin(), waits.end());
  status.held_up = find_roots(counted);
  return status;
}

}  // namespace weft::tool
