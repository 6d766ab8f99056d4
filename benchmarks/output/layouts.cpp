#include "benchmarks/output/layouts.hpp"

#include <fmt/format.h>

#include <set>
#include <stdexcept>

#include "benchmarks/driver/catalogue.hpp"
#include "benchmarks/output/against.hpp"

namespace weft::bench {
namespace {

std::set<std::string> peers_of(const std::vector<Row>& rows) {
  std::set<std::string> peers;
  for (const Row& row : rows)
    for (const auto& [name, comparison] : row.peers) peers.insert(name);
  return peers;
}

/// The factor from a tensor's bytes to bytes on the bus, as nccl-tests count them.
double bus_factor(const std::string& benchmark, int ranks) {
  const double n = ranks;
  if (benchmark == kAllReduce) return 2 * (n - 1) / n;
  if (benchmark == kBroadcast) return 1;
  return (n - 1) / n;
}

/// A cell of CSV, in quotes if it has a comma.
std::string quoted(const std::string& text) {
  return text.find(',') == std::string::npos ? text : '"' + text + '"';
}

}  // namespace

std::string osu_layout(const std::string& benchmark, const std::vector<Row>& rows) {
  const std::set<std::string> peers = peers_of(rows);
  std::string text;
  const Row* before = nullptr;
  for (const Row& row : rows) {
    if (before == nullptr || before->kind != row.kind || before->ranks != row.ranks) {
      text += fmt::format("# weft {} ({}, {} ranks)\n# {:<12}{:>18}{:>18}", benchmark, row.kind,
                          row.ranks, "Size", "Latency(us)", "limit(us)");
      for (const std::string& peer : peers) text += fmt::format("{:>18}", peer + "(us)");
      text += '\n';
    }
    text += fmt::format("{:<14}{:>18.2f}{:>18.2f}", row.size, row.weft_us, row.limit.us);
    for (const std::string& peer : peers) {
      const auto found = row.peers.find(peer);
      text += found == row.peers.end() ? fmt::format("{:>18}", "-")
                                       : fmt::format("{:>18.2f}", found->second.us);
    }
    text += '\n';
    before = &row;
  }
  return text;
}

std::string nccl_layout(const std::string& benchmark, const std::vector<Row>& rows, bool checked) {
  const Description& description = description_of(benchmark);
  if (!description.is_collective || !description.moves_bytes)
    throw std::runtime_error(
        fmt::format("--layout nccl: {} moves no elements of a collective", benchmark));
  const bool sums = benchmark == kAllReduce || benchmark == kReduceScatter;
  std::string text =
      fmt::format("# {}\n#{:>12}{:>14}{:>10}{:>8}{:>10}{:>9}{:>9}{:>8}\n", benchmark, "size",
                  "count", "type", "redop", "time", "algbw", "busbw", "#wrong");
  text += fmt::format("#{:>12}{:>14}{:>10}{:>8}{:>10}{:>9}{:>9}\n", "(B)", "(elements)", "", "",
                      "(us)", "(GB/s)", "(GB/s)");
  for (const Row& row : rows) {
    const double speed = static_cast<double>(row.size) / row.weft_us / 1000;
    text += fmt::format("{:>13}{:>14}{:>10}{:>8}{:>10.2f}{:>9.2f}{:>9.2f}{:>8}\n", row.size,
                        row.size / sizeof(float), "float", sums ? "sum" : "none", row.weft_us,
                        speed, speed * bus_factor(benchmark, row.ranks), checked ? "0" : "N/A");
  }
  return text;
}

std::string csv(const std::vector<Row>& rows, const Machine& machine) {
  const std::set<std::string> peers = peers_of(rows);
  const bool has_against = peers.contains(std::string(kAgainst));
  std::string text = "size,kind,ranks,weft_us,limit_us,limit_ratio,limit_spread";
  for (const std::string& peer : peers) text += fmt::format(",{0}_us,{0}_ratio,{0}_spread", peer);
  if (has_against) text += ",worse";
  text += machine.congestion_control.empty() ? "\n" : ",congestion_control\n";
  const auto columns = [](const Comparison& c) {
    return fmt::format(",{:.6g},{:.4g},{:.3g}", c.us, c.ratio, c.spread);
  };
  for (const Row& row : rows) {
    text += fmt::format("{},{},{},{:.6g}", row.size, quoted(row.kind), row.ranks, row.weft_us);
    text += columns(row.limit);
    for (const std::string& peer : peers) {
      const auto found = row.peers.find(peer);
      text += found == row.peers.end() ? ",,," : columns(found->second);
    }
    if (has_against) {
      const auto found = row.peers.find(std::string(kAgainst));
      text += found == row.peers.end() ? "," : is_worse(found->second) ? ",1" : ",0";
    }
    if (!machine.congestion_control.empty()) text += ',' + quoted(machine.congestion_control);
    text += '\n';
  }
  return text;
}

void write_csv(const std::string& file, const std::vector<Row>& rows, const Machine& machine) {
  write_file(file, csv(rows, machine));
}

}  // namespace weft::bench
