#include "benchmarks/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "benchmarks/catalogue.hpp"
#include "benchmarks/statistics.hpp"

namespace weft::bench {
namespace {

Comparison compare(const std::vector<double>& times, const std::vector<double>& weft_ratios) {
  return {median(times), median(weft_ratios), spread(weft_ratios)};
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
  const auto open_mpi = peers.find("openmpi");
  return open_mpi == peers.end() ? limit.spread : open_mpi->second.spread;
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
      else if (name != "weft" && name != "limit" && name != "weft/limit")
        row.peers[name] = compare(times, ratios(weft, times));
    }
    for (const auto& [name, values] : measured.figures) row.figures[name] = median(values);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string table(const std::string& benchmark, const std::vector<Row>& rows) {
  std::set<std::string> peers;
  std::set<std::string> figures;
  const bool moves_bytes = description_of(benchmark).moves_bytes;
  std::size_t size_width = 6;
  std::size_t kind_width = 10;
  for (const Row& row : rows) {
    size_width = std::max(size_width, size_text(row.size).size());
    kind_width = std::max(kind_width, row.kind.size() + 1);
    for (const auto& [name, comparison] : row.peers) peers.insert(name);
    for (const auto& [name, value] : row.figures) figures.insert(name);
  }

  std::string text =
      fmt::format("{}: microseconds per operation; (ratio: weft's time / theirs)\n", benchmark);
  text += fmt::format("{:>{}} {:<{}}{:>10}{:>20}", "size", size_width, "kind", kind_width, "weft",
                      "limit");
  for (const std::string& name : peers) text += fmt::format("{:>20}", name);
  text += fmt::format("{:>8}{:>8}", "GB/s", "spread");
  for (const std::string& name : figures) text += fmt::format("{:>19}", name);
  text += '\n';
  const auto cell = [](const Comparison& c) {
    return fmt::format("{:>12} ({:5.3f})", time_text(c.us), c.ratio);
  };
  for (const Row& row : rows) {
    text += fmt::format("{:>{}} {:<{}}{:>10}{}", size_text(row.size), size_width, row.kind,
                        kind_width, time_text(row.weft_us), cell(row.limit));
    for (const std::string& name : peers) {
      const auto found = row.peers.find(name);
      text += found == row.peers.end() ? fmt::format("{:>20}", "-") : cell(found->second);
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
  return text;
}

std::string json(const std::string& benchmark, const std::vector<Row>& rows, unsigned processors) {
  int most_ranks = 2;
  auto list = nlohmann::json::array();
  for (const Row& row : rows) {
    auto peers = nlohmann::json::object();
    auto comparisons = nlohmann::json::object();
    const auto add = [&comparisons](const std::string& name, const Comparison& c) {
      comparisons[name] = {{"ratio", c.ratio}, {"spread", c.spread}};
    };
    add("limit", row.limit);
    for (const auto& [name, comparison] : row.peers) {
      peers[name] = comparison.us;
      add(name, comparison);
    }
    most_ranks = std::max(most_ranks, row.ranks);
    list.push_back({{"size", row.size},
                    {"kind", row.kind},
                    {"ranks", row.ranks},
                    {"weft_us", row.weft_us},
                    {"limit_us", row.limit.us},
                    {"peers", peers},
                    {"spread", row.spread()},
                    {"ratios", comparisons},
                    {"limit_ways", row.limit_ways},
                    {"figures", row.figures}});
  }
  return nlohmann::json{{"bench", benchmark},
                        {"ranks", most_ranks},
                        {"processors", processors},
                        {"rows", list}}
             .dump(1) +
         "\n";
}

void write_json(const std::string& file, const std::string& benchmark, const std::vector<Row>& rows,
                unsigned processors) {
  std::ofstream out(file);
  out << json(benchmark, rows, processors);
  out.close();
  if (!out) throw std::runtime_error(fmt::format("cannot write {}; is its folder there?", file));
}

}  // namespace weft::bench
