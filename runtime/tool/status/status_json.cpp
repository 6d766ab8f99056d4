// A job's status as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/tool/status/print_status.hpp"

namespace weft::tool {
namespace {

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
                      {"residual_norm", table.residual_norm},
                      {"staged_bytes", table.staged_bytes},
                      {"device_copies", table.device_copies}};
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
