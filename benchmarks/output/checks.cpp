#include "benchmarks/output/checks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weft::bench {
namespace {

double figure(const Row& row, std::string_view name) { return row.figures.at(std::string(name)); }

bool is_slower(const Row& row) { return figure(row, kSlower) != 0; }

}  // namespace

double noise_of(const Row& row) { return std::max(figure(row, kSpread), row.limit.spread); }

void judge(std::vector<Row>& rows) {
  for (Row& row : rows) {
    const double ratio = row.limit.ratio;
    const bool slower = ratio > figure(row, kAllowed) && ratio - 1 > noise_of(row);
    row.figures[std::string(kSlower)] = slower ? 1 : 0;
  }
}

bool any_slower(const std::vector<Row>& rows) { return std::ranges::any_of(rows, is_slower); }

std::string verdicts(const std::vector<Row>& rows) {
  std::string text =
      "checks: microseconds per operation, of what is named first and second; slower: their ratio\n"
      "is above the factor allowed, and exceeds 1 by more than the spread\n";
  std::size_t width = 5;
  for (const Row& row : rows) width = std::max(width, row.kind.size());
  text += fmt::format("{:>5}{:>6}  {:<{}}{:>11}{:>11}{:>8}{:>9}{:>8}\n", "ranks", "size", "check",
                      width, "first", "second", "ratio", "allowed", "spread");
  for (const Row& row : rows)
    text += fmt::format("{:>5}{:>6}  {:<{}}{:>11}{:>11}{:>8.3f}{:>9.2f}{:>7.0f}%  {}\n", row.ranks,
                        size_text(row.size), row.kind, width, time_text(row.weft_us),
                        time_text(row.limit.us), row.limit.ratio, figure(row, kAllowed),
                        100 * noise_of(row), is_slower(row) ? "slower" : "ok");
  return text;
}

}  // namespace weft::bench
