#include "runtime/tool/status/print_status.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <set>

namespace weft::tool {
namespace {

std::uint64_t sum(const RankStatus& rank, std::uint64_t Progress::*count) {
  std::uint64_t all = 0;
  for (const Progress& progress : rank.progress) all += progress.*count;
  return all;
}

/// "ranks 2, 3 and 4 more: ".
std::string peers_text(const WaitStatus& wait) {
  const bool is_message =
      wait.operation == stats::Operation::recv || wait.operation == stats::Operation::probe;
  if (wait.peers.empty()) return is_message ? "any rank: " : "";
  std::string text = fmt::format("rank{} {}", wait.peers.size() == 1 ? "" : "s",
                                 fmt::join(wait.peers, wait.is_one_of_several ? " or " : ", "));
  if (wait.more > 0 && wait.executor == 0 && !wait.is_one_of_several)
    text += fmt::format(" and {} more", wait.more);
  return text + ": ";
}

/// "send, tag 7, 1048576 bytes (offered, not received)".
std::string message_text(const WaitStatus& wait) {
  std::string text(stats::name(wait.operation));
  constexpr std::uint64_t kAllBits = ~std::uint64_t{0};
  if (wait.mask == kAllBits)
    text += fmt::format(", tag {}", wait.tag);
  else if (wait.mask != 0)
    text += fmt::format(", tag {} (bits {:#x})", wait.tag, wait.mask);
  if (wait.bytes != 0) text += fmt::format(", {} bytes", wait.bytes);
  if (!wait.text.empty()) text += fmt::format(" ({})", wait.text);
  return text;
}

std::string call_text(const WaitStatus& wait) {
  using Operation = stats::Operation;
  switch (wait.operation) {
    case Operation::collective:
      return fmt::format("{}, call {} of {}, {} bytes", wait.text, wait.sequence,
                         wait.slot.empty() ? "a group" : wait.slot, wait.bytes);
    case Operation::open:
      return wait.text;  // begins with what is done: open, or split
    case Operation::rendezvous:
      return wait.text.empty() ? "rendezvous" : "rendezvous: " + wait.text;
    case Operation::signal:
      return wait.sequence == 0
                 ? fmt::format("signal \"{}\"", wait.text)
                 : fmt::format("signal \"{}\" to be at least {}", wait.text, wait.sequence);
    case Operation::settle:
      return fmt::format("settle {}", wait.slot);
    case Operation::send:
    case Operation::recv:
    case Operation::probe:
      return message_text(wait);
    case Operation::any:
    case Operation::serve: {
      std::string text(wait.operation == Operation::any ? "wait_any" : "serve");
      if (!wait.text.empty()) text += ": " + wait.text;
      return wait.more > 0 ? text + fmt::format(" and {} more", wait.more) : text;
    }
    default:
      break;
  }
  std::string text(stats::name(wait.operation));
  if (!wait.slot.empty()) text += fmt::format(" \"{}\"", wait.slot);
  if (wait.sequence != 0) text += fmt::format(" #{}", wait.sequence);
  if (!wait.text.empty()) text += fmt::format(" ({})", wait.text);
  return text;
}

/// "rank 2: wait "gradients" #17, 3.2 s".
std::string wait_text(const WaitStatus& wait) {
  std::string text = peers_text(wait) + call_text(wait);
  if (!wait.within.empty()) text += ", in " + wait.within;
  return text + fmt::format(", {:.1f} s", wait.seconds);
}

/// The waits that a rank's line has no room for: those of its other threads.
std::string waits_text(const JobStatus& job) {
  std::string text;
  for (const RankStatus& rank : job.ranks)
    for (std::size_t i = rank.condition.empty() ? 1 : 0; i < rank.waits.size(); ++i)
      if (rank.waits[i].operation != stats::Operation::step)
        text += fmt::format("waits: rank {}: {}\n", rank.rank, wait_text(rank.waits[i]));
  return text;
}

std::string peer_text(const FailureStatus& one) {
  const char* const way = one.operation == stats::Operation::send ? "to" : "from";
  return one.peer < 0 ? fmt::format("{} any rank", way) : fmt::format("{} rank {}", way, one.peer);
}

/// "failed: rank 1: put 3 into "x" of rank 0: mismatch: ...; the program has not looked at its
/// request for 3.2 s".
std::string failure_text(const RankStatus& rank, const FailureStatus& one) {
  std::string text = fmt::format("failed: rank {}: ", rank.rank);
  if (one.operation == stats::Operation::put)
    return text + fmt::format(
                      "put {} into \"{}\" of rank {}: {}: {}; the program has not looked at its "
                      "request for {:.1f} s\n",
                      one.sequence, one.slot, one.peer, one.code, one.text, one.seconds);
  if (one.operation == stats::Operation::send || one.operation == stats::Operation::recv)
    return text +
           fmt::format("{} {}: {}: {}; the program has not looked at its request for {:.1f} s\n",
                       stats::name(one.operation), peer_text(one), one.code, one.text, one.seconds);
  if (one.operation == stats::Operation::rendezvous)
    return text + fmt::format("rendezvous with rank {}: {}: {}, {:.1f} s ago\n", one.peer, one.code,
                              one.text, one.seconds);
  return text +
         fmt::format("{}: {}: {}, {:.1f} s ago\n", one.slot, one.code, one.text, one.seconds);
}

std::string failures_text(const JobStatus& job) {
  std::string text;
  for (const RankStatus& rank : job.ranks)
    for (const FailureStatus& one : rank.failures) text += failure_text(rank, one);
  return text;
}

/// The groups in whose calls a rank waits; in wait_any those of its plans.
std::set<std::string> awaited_groups(const JobStatus& job) {
  std::set<std::string> groups;
  for (const RankStatus& rank : job.ranks)
    for (const WaitStatus& wait : rank.waits) {
      if (wait.operation == stats::Operation::collective && !wait.slot.empty())
        groups.insert(wait.slot);
      if (wait.operation != stats::Operation::any) continue;
      for (const EdgeStatus& edge : rank.edges)
        if (edge.role == stats::kCalls && edge.progress.started > edge.progress.completed)
          groups.insert(edge.slot);
    }
  return groups;
}

/// Where each rank of these groups is: "calls of group of ranks 0-2: rank 0 in call 2, rank 1 in
/// call 2, rank 2 in none after call 1".
std::string calls_text(const JobStatus& job) {
  const std::set<std::string> groups = awaited_groups(job);
  std::string text;
  for (const std::string& group : groups) {
    std::vector<std::string> parts;
    for (const RankStatus& rank : job.ranks)
      for (const EdgeStatus& edge : rank.edges) {
        if (edge.role != stats::kCalls || edge.slot != group) continue;
        const Progress& calls = edge.progress;
        parts.push_back(calls.started > calls.completed
                            ? fmt::format("rank {} in call {}", rank.rank, calls.completed + 1)
                        : calls.completed == 0 ? fmt::format("rank {} in none yet", rank.rank)
                                               : fmt::format("rank {} in none after call {}",
                                                             rank.rank, calls.completed));
      }
    text += fmt::format("calls of {}: {}\n", group, fmt::join(parts, ", "));
  }
  return text;
}

bool is_here(const JobStatus& job, const RankStatus& rank) {
  return std::ranges::any_of(job.ranks, [&](const RankStatus& other) {
    return other.seen != SeenBy::peers && other.host == rank.host;
  });
}

std::string what_it_does(const JobStatus& job, const RankStatus& rank) {
  if (rank.seen == SeenBy::keeper) return "killed; a peer keeps its stats segment";
  if (rank.seen == SeenBy::peers) {
    if (rank.host.empty()) return "(has not joined)";
    if (!is_here(job, rank)) return "(another host: as its peers here know it)";
    if (rank.state == RankState::left) return "(has left the job, and its process has ended)";
    return rank.state == RankState::dead ? "(its process has ended)"
                                         : "(its stats segment can't be read)";
  }
  if (!rank.condition.empty()) return rank.condition;
  return rank.waits.empty() ? "" : wait_text(rank.waits.front());
}

std::string hosts_text(const JobStatus& job) {
  std::set<std::string> hosts;
  for (const RankStatus& rank : job.ranks)
    if (!rank.host.empty()) hosts.insert(rank.host);
  return fmt::format("{}", fmt::join(hosts, ", "));
}

std::string late_text(const JobStatus& job) {
  std::string text;
  const auto& laggards = job.held_up.laggards;
  for (std::size_t i = 0; i < laggards.size();) {
    // Many ranks may be late alike: those of which any could send.
    std::size_t end = i;
    std::vector<int> ranks;
    for (; end < laggards.size() && laggards[end].waiters == laggards[i].waiters; ++end)
      ranks.push_back(laggards[end].rank);
    constexpr std::size_t kOneEach = 4;
    if (ranks.size() <= kOneEach) ranks.resize(1);
    text +=
        fmt::format("late: rank{} {}, for {}which {} {}\n", ranks.size() == 1 ? "" : "s",
                    fmt::join(ranks, ", "), ranks.size() == 1 ? "" : "each of ",
                    laggards[i].waiters, laggards[i].waiters == 1 ? "rank waits" : "ranks wait");
    i += ranks.size();
  }
  for (const auto& circle : job.held_up.circles)
    text += fmt::format(
        "circle: rank {} -> {}: each waits for the next; check that they take the same steps in "
        "the same order\n",
        fmt::join(circle, " -> "), circle.front());
  return text;
}

std::string rejected_text(const JobStatus& job) {
  std::string text;
  for (const RankStatus& rank : job.ranks)
    if (rank.rejected_connections > 0)
      text += fmt::format("rejected: {} {} by rank {}\n", rank.rejected_connections,
                          rank.rejected_connections == 1 ? "connection" : "connections", rank.rank);
  return text;
}

std::string rails_text(const JobStatus& job) {
  std::string text;
  for (const RankStatus& rank : job.ranks)
    for (const RailsStatus& rails : rank.rails)
      text += fmt::format("rails: rank {} to rank {}: {} lost, {} back\n", rank.rank, rails.peer,
                          rails.lost, rails.back);
  return text;
}

std::string table_text(const RankStatus& rank, const TableStatus& table) {
  std::string text = fmt::format("table {}/{}: rank {}", table.server, table.table, rank.rank);
  if (table.works)
    text += fmt::format(" works: {} pushes ({} bytes), {} pulls ({} bytes), waited {:.1f} s",
                        table.pushes, table.bytes_pushed, table.pulls, table.bytes_pulled,
                        table.waited);
  if (table.bytes_spared > 0)
    text += fmt::format(", compression spared {} bytes in {:.1f} s, residual norm {:.3g}",
                        table.bytes_spared, table.compressing, table.residual_norm);
  if (table.staged_bytes > 0)
    text += fmt::format(", {} bytes staged for a GPU", table.staged_bytes);
  if (table.serves) {
    text += fmt::format("{} serves: version {}, {} requests ({} waiting), {} bytes held",
                        table.works ? ";" : "", table.shard_version, table.requests, table.queue,
                        table.memory);
    if (table.is_sparse) text += fmt::format(" in {} rows", table.rows);
    if (!table.works) text += fmt::format(", load {:.0f} %", 100 * table.load);
  }
  return text + "\n";
}

std::string tables_text(const JobStatus& job) {
  std::string text;
  for (const RankStatus& rank : job.ranks)
    for (const TableStatus& table : rank.tables) text += table_text(rank, table);
  return text;
}

std::string role_text(const RankStatus& rank, const WaitStatus& wait) {
  const auto edge = std::ranges::find(rank.edges, wait.slot, &EdgeStatus::slot);
  const bool sends =
      edge != rank.edges.end() && (edge->role == Role::puts || edge->role == Role::publishes);
  return fmt::format("{} rank {}", sends ? "to" : "from", wait.peer);
}

/// Steps are numbered from 0, as Executor::step() is:
/// "graph 'graph': rank 1: step 17, waiting for edge y:0 from rank 3 and 2 more, 1.2 s".
std::string executor_text(const RankStatus& rank, const ExecutorStatus& one) {
  std::string text = fmt::format("graph '{}': rank {}: ", one.name, rank.rank);
  if (one.failed) return text + fmt::format("step {} failed\n", one.begun - 1);
  if (one.begun == one.ended) return text + fmt::format("{} steps, none runs\n", one.ended);
  text += fmt::format("step {}", one.begun - 1);
  const auto wait = std::ranges::find(rank.waits, one.number, &WaitStatus::executor);
  if (wait == rank.waits.end()) return text + "\n";
  if (wait->slot.empty())
    text += fmt::format(", waiting for an edge with rank {}", wait->peer);
  else
    text +=
        fmt::format(", waiting for edge {} {}", edge_of(one, wait->slot), role_text(rank, *wait));
  if (wait->more > 0) text += fmt::format(" and {} more", wait->more);
  return text + fmt::format(", {:.1f} s\n", wait->seconds);
}

std::string executors_text(const JobStatus& job) {
  std::string text;
  for (const RankStatus& rank : job.ranks)
    for (const ExecutorStatus& one : rank.executors) text += executor_text(rank, one);
  return text;
}

}  // namespace

std::string status_text(const JobStatus& job, const JobStatus* before, double seconds) {
  const auto stats_segments = std::ranges::count_if(
      job.ranks, [](const RankStatus& rank) { return rank.seen != SeenBy::peers; });
  const std::string user = job.user == ::geteuid() ? "" : fmt::format(" of user {}", job.user);
  std::string text = fmt::format("job {}{}: {} ranks on {}; {} of them seen here\n", job.id, user,
                                 job.size, hosts_text(job), stats_segments);
  text +=
      fmt::format("{:>5} {:<8} {:<14} {:>8} {:>12} {:>12} {:>10}  {}\n", "rank", "state", "host",
                  "pid", "started", "completed", before == nullptr ? "" : "per s", "waits for");
  for (const RankStatus& rank : job.ranks) {
    std::string started = "-";
    std::string completed = "-";
    std::string rate;
    if (rank.seen != SeenBy::peers) {
      started = std::to_string(sum(rank, &Progress::started));
      completed = std::to_string(sum(rank, &Progress::completed));
    }
    if (before != nullptr && seconds > 0 && rank.seen == SeenBy::itself &&
        before->ranks.size() == job.ranks.size()) {
      const RankStatus& old = before->ranks[static_cast<std::size_t>(rank.rank)];
      const auto moved = static_cast<double>(sum(rank, &Progress::completed)) -
                         static_cast<double>(sum(old, &Progress::completed));
      rate = fmt::format("{:.0f}", std::max(0.0, moved) / seconds);
    }
    text += fmt::format("{:>5} {:<8} {:<14} {:>8} {:>12} {:>12} {:>10}  {}\n", rank.rank,
                        name(rank.state), rank.host, rank.pid, started, completed, rate,
                        what_it_does(job, rank));
  }
  return text + late_text(job) + failures_text(job) + calls_text(job) + waits_text(job) +
         executors_text(job) + rails_text(job) + tables_text(job) + rejected_text(job);
}

std::string edge_of(const ExecutorStatus& one, const std::string& slot) {
  const std::size_t number = one.name.size() + 1;
  const std::size_t space = slot.starts_with(one.name + '/') ? slot.find(' ', number) : slot.npos;
  return space == slot.npos ? slot : slot.substr(space + 1);
}

}  // namespace weft::tool
