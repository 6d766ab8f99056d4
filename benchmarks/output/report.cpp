#include "benchmarks/output/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>

#include "benchmarks/driver/catalogue.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/output/against.hpp"

namespace weft::bench {
namespace {

Comparison compare(const std::vector<double>& times, const std::vector<double>& weft_ratios) {
  return {median(times), median(weft_ratios), spread(weft_ratios)};
}

constexpr std::size_t kCell = 20;
constexpr std::size_t kCellWithOnce = 33;

std::string cell(const Comparison& compared, std::size_t width) {
  std::string text = fmt::format("{} ({:5.3f}", time_text(compared.us), compared.ratio);
  if (compared.once_ratio > 0) text += fmt::format(", once {:5.3f}", compared.once_ratio);
  return fmt::format("{:>{}}", text + ")", width);
}

}  // namespace

std::string size_text(std::size_t size) {
  constexpr const char* kUnits[] = {"", "k", "m", "g"};
  std::size_t unit = 0;
  for (; size >= 1024 && size % 1024 == 0 && unit < 3; ++unit) size /= 1024;
  return fmt::format("{}{}", size, kUnits[unit]);
}

std::string time_text(double us) {
  return us < 10 ? fmt::format("{:.3f}", us) : fmt::format("{:.1f}", us);
}

double Row::spread() const {
  for (const std::string& name : {std::string(kAgainst), std::string("openmpi")})
    if (const auto found = peers.find(name); found != peers.end()) return found->second.spread;
  return limit.spread;
}

std::vector<std::string> Row::peers_beyond_limit() const {
  std::vector<std::string> beyond;
  for (const auto& [name, peer] : peers)
    if (name != kAgainst && peer.us * (1 + std::max(peer.spread, limit.spread)) < limit.us)
      beyond.push_back(name);
  return beyond;
}

std::vector<Row> summarise(const Results& results) {
  std::vector<Row> rows;
  for (const Measurements& measured : results) {
    const auto& columns = measured.columns;
    const auto& weft = columns.at("weft");
    Row row{.size = measured.size,
            .kind = measured.kind,
            .ranks = measured.ranks,
            .weft_us = median(weft),
            .limit = compare(columns.at("limit"), columns.at("weft/limit")),
            .limit_ways = {},
            .peers = {},
            .figures = {}};
    for (const auto& [name, times] : columns) {
      if (name.starts_with("limit_"))
        row.limit_ways[name] = median(times);
      else if (name == kAgainstLimit)
        row.limit_against = median(ratios(columns.at("limit"), times));
      else if (name != "weft" && name != "limit" && name != "weft/limit")
        row.peers[name] = compare(times, ratios(weft, times));
    }
    for (const auto& [name, values] : measured.figures) row.figures[name] = median(values);
    if (const auto once = measured.figures.find(std::string(kOnceFigure));
        once != measured.figures.end()) {
      row.limit.once_ratio = median(ratios(once->second, columns.at("limit")));
      for (auto& [name, peer] : row.peers)
        if (name != kAgainst) peer.once_ratio = median(ratios(once->second, columns.at(name)));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string table(const std::string& benchmark, const std::vector<Row>& rows,
                  const Machine& machine) {
  std::set<std::string> peers;
  std::set<std::string> figures;
  const bool moves_bytes = description_of(benchmark).moves_bytes;
  std::size_t size_width = 6;
  std::size_t kind_width = 10;
  std::size_t cell_width = kCell;
  bool any_crowded = false;
  for (const Row& row : rows) {
    size_width = std::max(size_width, size_text(row.size).size());
    kind_width = std::max(kind_width, row.kind.size() + 1);
    if (row.limit.once_ratio > 0) cell_width = kCellWithOnce;
    any_crowded = any_crowded || row.is_crowded(machine.processors);
    for (const auto& [name, comparison] : row.peers) peers.insert(name);
    for (const auto& [name, value] : row.figures) figures.insert(name);
  }

  std::string text = benchmark;
  if (!machine.congestion_control.empty())
    text += fmt::format(", TCP under {}", machine.congestion_control);
  text += ": microseconds per operation; (ratio: weft's time / theirs)\n";
  text += fmt::format("{:>{}} {:<{}}{:>6}{:>10}{:>{}}", "size", size_width, "kind", kind_width,
                      "ranks", "weft", "limit", cell_width);
  for (const std::string& name : peers) text += fmt::format("{:>{}}", name, cell_width);
  text += fmt::format("{:>8}{:>8}", "GB/s", "spread");
  for (const std::string& name : figures) text += fmt::format("{:>19}", name);
  text += '\n';
  for (const Row& row : rows) {
    const std::string ranks =
        fmt::format("{}{}", row.ranks, row.is_crowded(machine.processors) ? "*" : "");
    text += fmt::format("{:>{}} {:<{}}{:>6}{:>10}{}", size_text(row.size), size_width, row.kind,
                        kind_width, ranks, time_text(row.weft_us), cell(row.limit, cell_width));
    for (const std::string& name : peers) {
      const auto found = row.peers.find(name);
      text += found == row.peers.end() ? fmt::format("{:>{}}", "-", cell_width)
                                       : cell(found->second, cell_width);
    }
    text += moves_bytes ? fmt::format("{:>8.2f}", row.gigabytes_per_second())
                        : fmt::format("{:>8}", "-");
    text += fmt::format("{:>7.0f}%", 100 * row.spread());
    for (const std::string& name : figures) {
      const auto found = row.figures.find(name);
      text += found == row.figures.end() ? fmt::format("{:>19}", "-")
                                         : fmt::format("{:>19.6g}", found->second);
    }
    text += '\n';
  }
  if (any_crowded)
    text +=
        fmt::format("* more ranks than the {} processor(s): they take turns\n", machine.processors);
  for (const Row& row : rows)
    for (const std::string& name : row.peers_beyond_limit())
      text +=
          fmt::format("{} {}: {} takes {:.2f} of the limit's time, so the limit is none\n",
                      size_text(row.size), row.kind, name, row.peers.at(name).us / row.limit.us);
  return text;
}

std::string json(const std::string& benchmark, const std::vector<Row>& rows,
                 const Machine& machine) {
  int most_ranks = 2;
  auto list = nlohmann::json::array();
  for (const Row& row : rows) {
    auto peers = nlohmann::json::object();
    auto comparisons = nlohmann::json::object();
    const auto add = [&comparisons](const std::string& name, const Comparison& c) {
      comparisons[name] = {{"ratio", c.ratio}, {"spread", c.spread}};
      if (c.once_ratio > 0) comparisons[name]["once_ratio"] = c.once_ratio;
    };
    add("limit", row.limit);
    for (const auto& [name, comparison] : row.peers) {
      peers[name] = comparison.us;
      add(name, comparison);
      if (name != kAgainst) continue;
      comparisons[name]["worse"] = is_worse(comparison);
      comparisons[name]["limit_ratio"] = row.limit_against;
    }
    most_ranks = std::max(most_ranks, row.ranks);
    list.push_back({{"size", row.size},
                    {"kind", row.kind},
                    {"ranks", row.ranks},
                    {"crowded", row.is_crowded(machine.processors)},
                    {"weft_us", row.weft_us},
                    {"limit_us", row.limit.us},
                    {"peers", peers},
                    {"spread", row.spread()},
                    {"ratios", comparisons},
                    {"limit_ways", row.limit_ways},
                    {"peers_beyond_limit", row.peers_beyond_limit()},
                    {"figures", row.figures}});
  }
  nlohmann::json whole{{"bench", benchmark},
                       {"ranks", most_ranks},
                       {"processors", machine.processors},
                       {"rows", list}};
  if (!machine.congestion_control.empty()) whole["congestion_control"] = machine.congestion_control;
  return whole.dump(1) + "\n";
}

void write_file(const std::string& file, const std::string& text) {
  errno = 0;
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out)
    throw std::runtime_error(
        fmt::format("cannot write {}{}", file,
                    errno == 0 ? "" : ": " + std::generic_category().message(errno)));
}

void write_json(const std::string& file, const std::string& benchmark, const std::vector<Row>& rows,
                const Machine& machine) {
  write_file(file, json(benchmark, rows, machine));
}

}  // namespace weft::bench
