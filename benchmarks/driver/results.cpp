#include "benchmarks/driver/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace weft::bench {
namespace {

/// The column for a value of a program; nullopt for values that no column holds: the other build's
/// ratios and the ways of its limit.
std::optional<std::string> column(const std::string& program, const std::string& value) {
  if (program == "weft") return value;
  if (program == kAgainst) {
    if (value == "weft") return program;
    return value == "limit" ? std::optional(std::string(kAgainstLimit)) : std::nullopt;
  }
  return value == "sendrecv" ? program : program + "_" + value;
}

}  // namespace

void add(Results& results, const std::string& program, int ranks, const std::vector<RunRow>& rows) {
  for (const RunRow& row : rows) {
    auto found = std::find_if(results.begin(), results.end(), [&](const Measurements& m) {
      return m.size == row.size && m.kind == row.kind && m.ranks == ranks;
    });
    if (found == results.end())
      found = results.insert(results.end(), Measurements{row.size, row.kind, ranks, {}, {}});
    for (const auto& [name, value] : row.values)
      if (const auto kept = column(program, name)) found->columns[*kept].push_back(value);
    if (program == kAgainst) continue;
    for (const auto& [name, value] : row.figures) found->figures[name].push_back(value);
  }
}

void forget(Results& results, const std::string& program) {
  for (Measurements& row : results)
    std::erase_if(row.columns, [&](const auto& entry) {
      return entry.first == program || entry.first.starts_with(program + "_");
    });
}

void keep_common_rows(Results& results) {
  std::erase_if(results, [](const Measurements& row) {
    if (row.columns.contains("weft")) return false;
    fmt::print(stderr, "left out: {} bytes, {}: this build does not measure it\n", row.size,
               row.kind);
    return true;
  });
  const auto has_both = [](const Measurements& row) {
    return row.columns.contains(std::string(kAgainst));
  };
  if (std::none_of(results.begin(), results.end(), has_both))
    throw std::runtime_error("--against: the two builds have no row in common");
}

}  // namespace weft::bench
