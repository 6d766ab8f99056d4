#include "benchmarks/harness/run_protocol.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace weft::bench {

std::vector<std::string> arguments(const RunOptions& options) {
  std::vector<std::string> words{"--worker",    options.benchmark,
                                 "--budget-ms", std::to_string(options.budget.count()),
                                 "--ranks",     std::to_string(options.ranks),
                                 "--sizes"};
  std::string sizes;
  for (const std::size_t size : options.sizes)
    sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  words.push_back(sizes);
  if (options.crowded) words.emplace_back("--crowded");
  if (options.check) words.emplace_back("-c");
  if (!options.kind.empty()) words.insert(words.end(), {"--kind", options.kind});
  return words;
}

RunOptions parse_run(int argc, char** argv) {
  RunOptions options;
  std::int64_t budget_ms = options.budget.count();
  CLI::App app{"One measured run of a benchmark, as a rank of its job"};
  app.add_option("--worker", options.benchmark, "benchmark")->required();
  app.add_option("--sizes", options.sizes, "bytes of a tensor")->required()->delimiter(',');
  app.add_option("--budget-ms", budget_ms, "time for one row");
  app.add_option("--ranks", options.ranks, "ranks of the job");
  app.add_flag("--crowded", options.crowded, "ranks share processors");
  app.add_flag("-c", options.check, "check the data");
  app.add_option("--kind", options.kind, "the one kind of row");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  options.budget = std::chrono::milliseconds(budget_ms);
  return options;
}

std::string to_line(const std::vector<RunRow>& rows) {
  auto list = nlohmann::json::array();
  for (const RunRow& row : rows)
    list.push_back(
        {{"size", row.size}, {"kind", row.kind}, {"values", row.values}, {"figures", row.figures}});
  return nlohmann::json{{"rows", list}}.dump();
}

std::vector<RunRow> rows_in(const std::string& output) {
  std::istringstream lines(output);
  nlohmann::json found;
  for (std::string line; std::getline(lines, line);) {
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("rows")) found = std::move(json);
  }
  if (found.is_null()) throw std::runtime_error("the run printed no rows");
  std::vector<RunRow> rows;
  for (const auto& row : found["rows"])
    rows.push_back({row.at("size"), row.at("kind"), row.at("values"), row.at("figures")});
  return rows;
}

}  // namespace weft::bench
