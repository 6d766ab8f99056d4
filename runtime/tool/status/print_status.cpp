#include "runtime/tool/status/print_status.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
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
      return fmt::format("open {}", wait.text);
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

/// Where each rank of a group is, for groups in whose calls a rank waits: "calls of group of ranks
/// 0-2: rank 0 in call 2, rank 1 in call 2, rank 2 in none after call 1".
std::string calls_text(const JobStatus& job) {
  std::set<std::string> groups;
  for (const RankStatus& rank : job.ranks)
    for (const WaitStatus& wait : rank.waits)
      if (wait.operation == stats::Operation::collective && !wait.slot.empty())
        groups.insert(wait.slot);
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

std::string what_it_does(const RankStatus& rank) {
  if (rank.seen == SeenBy::keeper) return "killed; a peer keeps its stats segment";
  if (rank.seen == SeenBy::peers)
    return rank.host.empty() ? "(has not joined)" : "(another host: as its peers here know it)";
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
  for (const Laggard& late : job.held_up.laggards)
    text += fmt::format("late: rank {}, for which {} {}\n", late.rank, late.waiters,
                        late.waiters == 1 ? "rank waits" : "ranks wait");
  for (const auto& circle : job.held_up.circles)
    text += fmt::format(
        "circle: rank {} -> {}: each waits for the next; check that they take the same steps in "
        "the "
        "same order\n",
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

/// The edge of a slot that the executor made: "y:0" of "graph/3 y:0".
std::string edge_of(const ExecutorStatus& one, const std::string& slot) {
  const std::size_t number = one.name.size() + 1;
  const std::size_t space = slot.starts_with(one.name + '/') ? slot.find(' ', number) : slot.npos;
  return space == slot.npos ? slot : slot.substr(space + 1);
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

nlohmann::ordered_json executor_json(const RankStatus& rank, const ExecutorStatus& one) {
  nlohmann::ordered_json json = {
      {"name", one.name}, {"begun", one.begun}, {"ended", one.ended}, {"failed", one.failed}};
  const auto wait = std::ranges::find(rank.waits, one.number, &WaitStatus::executor);
  if (wait != rank.waits.end())
    json["awaits"] = {{"edge", edge_of(one, wait->slot)},
                      {"peer", wait->peer},
                      {"more", wait->more},
                      {"seconds", wait->seconds}};
  return json;
}

nlohmann::ordered_json table_json(const TableStatus& table) {
  nlohmann::ordered_json json = {{"server", table.server},
                                 {"table", table.table},
                                 {"kind", table.is_sparse ? "sparse" : "dense"}};
  if (table.works)
    json["worker"] = {{"version", table.version},
                      {"pushes", table.pushes},
                      {"pulls", table.pulls},
                      {"bytes_pushed", table.bytes_pushed},
                      {"bytes_pulled", table.bytes_pulled},
                      {"seconds_waited", table.waited},
                      {"bytes_spared", table.bytes_spared},
                      {"seconds_compressing", table.compressing},
                      {"residual_norm", table.residual_norm}};
  if (table.serves)
    json["shard"] = {{"version", table.shard_version}, {"requests", table.requests},
                     {"queue", table.queue},           {"load", table.load},
                     {"bytes_read", table.bytes_read}, {"bytes_written", table.bytes_written},
                     {"bytes_held", table.memory},     {"rows", table.rows},
                     {"staleness", table.staleness}};
  return json;
}

nlohmann::ordered_json progress_json(const std::array<Progress, kRoles>& progress,
                                     std::uint64_t Progress::*count) {
  nlohmann::ordered_json all;
  for (std::size_t role = 0; role < kRoles; ++role)
    all[stats::role_name(static_cast<Role>(role))] = progress[role].*count;
  return all;
}

nlohmann::ordered_json rank_json(const RankStatus& rank) {
  auto edges = nlohmann::ordered_json::array();
  for (const EdgeStatus& edge : rank.edges)
    edges.push_back({{"slot", edge.slot},
                     {"role", stats::role_name(edge.role)},
                     {"peer", edge.peer},
                     {"started", edge.progress.started},
                     {"completed", edge.progress.completed}});
  auto waits = nlohmann::ordered_json::array();
  for (const WaitStatus& wait : rank.waits)
    waits.push_back({{"operation", stats::name(wait.operation)},
                     {"peer", wait.peer},
                     {"peers", wait.peers},
                     {"more", wait.more},
                     {"slot", wait.slot},
                     {"sequence", wait.sequence},
                     {"bytes", wait.bytes},
                     {"tag", wait.tag},
                     {"mask", wait.mask},
                     {"text", wait.text},
                     {"within", wait.within},
                     {"seconds", wait.seconds}});
  auto failures = nlohmann::ordered_json::array();
  for (const FailureStatus& one : rank.failures)
    failures.push_back({{"operation", stats::name(one.operation)},
                        {"peer", one.peer},
                        {"code", one.code},
                        {"slot", one.slot},
                        {"sequence", one.sequence},
                        {"count", one.count},
                        {"text", one.text},
                        {"seconds", one.seconds}});
  auto tables = nlohmann::ordered_json::array();
  for (const TableStatus& table : rank.tables) tables.push_back(table_json(table));
  auto executors = nlohmann::ordered_json::array();
  for (const ExecutorStatus& one : rank.executors) executors.push_back(executor_json(rank, one));
  auto rails = nlohmann::ordered_json::array();
  for (const RailsStatus& path : rank.rails)
    rails.push_back({{"peer", path.peer}, {"lost", path.lost}, {"back", path.back}});
  return {{"rank", rank.rank},
          {"state", name(rank.state)},
          {"seen_by", name(rank.seen)},
          {"condition", rank.condition},
          {"host", rank.host},
          {"pid", rank.pid},
          {"rejected_connections", rank.rejected_connections},
          {"started", progress_json(rank.progress, &Progress::started)},
          {"completed", progress_json(rank.progress, &Progress::completed)},
          {"waits", std::move(waits)},
          {"failures", std::move(failures)},
          {"edges", std::move(edges)},
          {"rails", std::move(rails)},
          {"tables", std::move(tables)},
          {"executors", std::move(executors)}};
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
                        what_it_does(rank));
  }
  return text + late_text(job) + failures_text(job) + calls_text(job) + waits_text(job) +
         executors_text(job) + rails_text(job) + tables_text(job) + rejected_text(job);
}

nlohmann::ordered_json status_json(const JobStatus& job) {
  auto ranks = nlohmann::ordered_json::array();
  for (const RankStatus& rank : job.ranks) ranks.push_back(rank_json(rank));
  auto laggards = nlohmann::ordered_json::array();
  for (const Laggard& late : job.held_up.laggards)
    laggards.push_back({{"rank", late.rank}, {"waiters", late.waiters}});
  return {{"id", job.id},
          {"user", job.user},
          {"size", job.size},
          {"ranks", std::move(ranks)},
          {"laggards", std::move(laggards)},
          {"circles", job.held_up.circles}};
}

}  // namespace weft::tool
