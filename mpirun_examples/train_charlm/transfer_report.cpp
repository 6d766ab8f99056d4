#include "transfer_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <vector>

namespace charlm {
namespace {

constexpr std::size_t kMostRows = 20;

std::string count_text(double value) {
  return value == static_cast<double>(static_cast<std::int64_t>(value))
             ? fmt::format("{:.0f}", value)
             : fmt::format("{:.2f}", value);
}

std::string bytes_text(double bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.2f} MiB", bytes / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.1f} KiB", bytes / (1 << 10));
  return count_text(bytes) + " B";
}

// Formats ranks as "0-2,5"; -1, the peer of a publisher, becomes "all".
std::string peers_text(const std::set<int>& peers) {
  std::vector<std::string> runs;
  for (auto at = peers.begin(); at != peers.end();) {
    const int first = *at;
    int last = first;
    while (++at != peers.end() && first >= 0 && *at == last + 1) last = *at;
    if (first < 0)
      runs.emplace_back("all");
    else
      runs.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  return fmt::format("{}", fmt::join(runs, ","));
}

std::string without_numbers(const std::string& slot) {
  std::string out;
  for (const char c : slot) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit)
      out.push_back(c);
    else if (out.empty() || out.back() != '*')
      out.push_back('*');
  }
  return out;
}

struct Row {
  std::string slot;
  weft::Role role = weft::Role::puts;
  std::string fabric;
  std::set<int> peers;
  weft::TransferCounters counters;
};

std::vector<Row> rows_of(const std::vector<weft::EdgeReport>& edges) {
  const bool group = edges.size() > kMostRows;
  std::map<std::tuple<std::string, weft::Role, std::string, int>, Row> rows;
  for (const auto& edge : edges) {
    const std::string slot = group ? without_numbers(edge.slot) : edge.slot;
    Row& row = rows[{slot, edge.role, edge.fabric, group ? 0 : edge.peer}];
    row.slot = slot;
    row.role = edge.role;
    row.fabric = edge.fabric;
    row.peers.insert(edge.peer);
    row.counters += edge.counters;
  }
  std::vector<Row> out;
  for (auto& [key, row] : rows) out.push_back(std::move(row));
  return out;
}

// Peers with equal paths and reasons share a line.
void append_paths(std::string& out, const std::vector<weft::PathReport>& paths) {
  std::map<std::string, std::set<int>> peers_by_path;
  for (const auto& path : paths) {
    std::string line = fmt::format("{} on {}", path.fabric, path.host);
    for (const auto& verdict : path.verdicts)
      line += fmt::format("; {}{}: {}", verdict.fabric == path.fabric ? "" : "not ", verdict.fabric,
                          verdict.reason);
    peers_by_path[line].insert(path.peer);
  }
  for (const auto& [line, peers] : peers_by_path)
    fmt::format_to(std::back_inserter(out), "  to {}: {}\n", peers_text(peers), line);
}

nlohmann::json counters_json(const weft::TransferCounters& c) {
  return {{"transfers", c.transfers},         {"bytes_moved", c.bytes_moved},
          {"bytes_copied", c.bytes_copied},   {"work_requests", c.work_requests},
          {"credit_writes", c.credit_writes}, {"control_messages", c.control_messages},
          {"registrations", c.registrations}};
}

weft::TransferCounters sum_of(std::span<const weft::TransferCounters> ranks) {
  weft::TransferCounters sum;
  for (const auto& counters : ranks) sum += counters;
  return sum;
}

}  // namespace

std::string transfer_report(const SteadyState& steady, int rank) {
  std::string out =
      fmt::format("transfers of rank {}, per step over {} settled steps\n", rank, steady.steps);
  append_paths(out, steady.paths);
  const std::vector<Row> rows = rows_of(steady.edges);
  std::size_t width = 4;
  for (const auto& row : rows) width = std::max(width, row.slot.size());
  constexpr auto kLine =
      "  {:<{}}  {:<9}  {:>5}  {:<6}  {:>9}  {:>10}  {:>7}  {:>8}  {:>7}  {:>8}  {:>13}\n";
  const auto line = [&](auto&&... columns) {
    fmt::format_to(std::back_inserter(out), fmt::runtime(kLine), columns...);
  };
  line("slot", width, "role", "peer", "fabric", "transfers", "moved", "copied", "work req",
       "credits", "control", "registrations");
  const auto per_step = [&](std::uint64_t count) {
    return static_cast<double>(count) / steady.steps;
  };
  for (const auto& row : rows) {
    const weft::TransferCounters& c = row.counters;
    line(row.slot, width, weft::name(row.role), peers_text(row.peers), row.fabric,
         count_text(per_step(c.transfers)), bytes_text(per_step(c.bytes_moved)),
         bytes_text(per_step(c.bytes_copied)), count_text(per_step(c.work_requests)),
         count_text(per_step(c.credit_writes)), count_text(per_step(c.control_messages)),
         count_text(per_step(c.registrations)));
  }
  return out;
}

std::string job_line(std::span<const weft::TransferCounters> ranks, int steps) {
  const weft::TransferCounters sum = sum_of(ranks);
  const auto per_step = [&](std::uint64_t count) { return static_cast<double>(count) / steps; };
  return fmt::format(
      "the whole job, per step: {} transfers, {} moved, {} copied, {} work requests, "
      "{} credit writes, {} control messages, {} registrations\n",
      count_text(per_step(sum.transfers)), bytes_text(per_step(sum.bytes_moved)),
      bytes_text(per_step(sum.bytes_copied)), count_text(per_step(sum.work_requests)),
      count_text(per_step(sum.credit_writes)), count_text(per_step(sum.control_messages)),
      count_text(per_step(sum.registrations)));
}

nlohmann::json transfer_json(const SteadyState& steady,
                             std::span<const weft::TransferCounters> ranks) {
  nlohmann::json out = {{"steps", steady.steps},
                        {"job", counters_json(sum_of(ranks))},
                        {"ranks", nlohmann::json::array()},
                        {"paths", nlohmann::json::array()},
                        {"edges", nlohmann::json::array()}};
  for (const auto& counters : ranks) out["ranks"].push_back(counters_json(counters));
  for (const auto& path : steady.paths) {
    nlohmann::json verdicts = nlohmann::json::array();
    for (const auto& verdict : path.verdicts)
      verdicts.push_back(
          {{"fabric", verdict.fabric}, {"usable", verdict.usable}, {"reason", verdict.reason}});
    out["paths"].push_back({{"peer", path.peer},
                            {"host", path.host},
                            {"fabric", path.fabric},
                            {"verdicts", verdicts},
                            {"counters", counters_json(path.counters)}});
  }
  for (const auto& edge : steady.edges)
    out["edges"].push_back({{"peer", edge.peer},
                            {"slot", edge.slot},
                            {"role", weft::name(edge.role)},
                            {"fabric", edge.fabric},
                            {"counters", counters_json(edge.counters)}});
  return out;
}

}  // namespace charlm
