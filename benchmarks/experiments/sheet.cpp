#include "benchmarks/experiments/sheet.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace weft::bench {
namespace {

std::string cell_text(const Cell& cell) {
  if (const auto* word = std::get_if<std::string>(&cell)) return word->empty() ? "-" : *word;
  return number_text(std::get<double>(cell));
}

/// In quotes if it has a comma.
std::string csv_text(const Cell& cell) {
  if (const auto* number = std::get_if<double>(&cell)) return fmt::format("{:.6g}", *number);
  const std::string& word = std::get<std::string>(cell);
  return word.find(',') == std::string::npos ? word : '"' + word + '"';
}

}  // namespace

std::string number_text(double value) {
  const double size = std::abs(value);
  if (size >= 100 || value == std::floor(value)) return fmt::format("{:.0f}", value);
  return size >= 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.3g}", value);
}

std::string text_of(const Sheet& sheet) {
  std::string text = fmt::format("{}: {}\n", sheet.name, sheet.title);
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < sheet.columns.size(); ++i) {
    std::size_t width = sheet.columns[i].size();
    for (const auto& row : sheet.rows) width = std::max(width, cell_text(row[i]).size());
    widths.push_back(width + 2);
  }
  const auto line = [&](auto&& cell_of) {
    for (std::size_t i = 0; i < widths.size(); ++i)
      text += fmt::format("{:>{}}", cell_of(i), widths[i]);
    text += '\n';
  };
  if (!sheet.rows.empty()) line([&](std::size_t i) { return sheet.columns[i]; });
  for (const auto& row : sheet.rows) line([&](std::size_t i) { return cell_text(row[i]); });
  for (const std::string& one : sheet.beside) text += one + '\n';
  return text;
}

std::string csv_of(const Sheet& sheet) {
  std::string text = fmt::format("{}\n", fmt::join(sheet.columns, ","));
  for (const auto& row : sheet.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + csv_text(row[i]);
    text += '\n';
  }
  return text;
}

std::string json_of(const Sheet& sheet) {
  auto rows = nlohmann::json::array();
  for (const auto& row : sheet.rows) {
    auto object = nlohmann::json::object();
    for (std::size_t i = 0; i < row.size(); ++i)
      std::visit(
          [&](const auto& value) {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
              if (value.empty()) return void(object[sheet.columns[i]] = nullptr);
            object[sheet.columns[i]] = value;
          },
          row[i]);
    rows.push_back(std::move(object));
  }
  const nlohmann::json whole{
      {"experiment", sheet.name}, {"title", sheet.title}, {"rows", rows}, {"beside", sheet.beside}};
  return whole.dump(1) + "\n";
}

}  // namespace weft::bench
