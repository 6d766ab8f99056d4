#include "benchmarks/harness/training_protocol.hpp"

#include <CLI/CLI.hpp>

#include <cstdlib>

namespace weft::bench {
namespace {

template <typename List, typename Text>
std::string joined(const List& list, Text&& text) {
  std::string words;
  for (const auto& one : list) words += (words.empty() ? "" : ",") + text(one);
  return words;
}

}  // namespace

std::vector<std::string> arguments(const TrainingOptions& options) {
  std::vector<std::string> words{std::string(kTrain),
                                 options.model,
                                 "--batches",
                                 joined(options.batches, [](auto n) { return std::to_string(n); }),
                                 "--ways",
                                 joined(options.ways, [](const auto& way) { return way; }),
                                 "--ranks",
                                 std::to_string(options.ranks),
                                 "--compute",
                                 options.compute,
                                 "--budget-ms",
                                 std::to_string(options.budget.count())};
  if (options.check) words.emplace_back("-c");
  return words;
}

TrainingOptions parse_training(int argc, char** argv) {
  TrainingOptions options;
  std::int64_t budget_ms = options.budget.count();
  CLI::App app{"One measured run that trains a model, as a rank of its job"};
  app.add_option(std::string(kTrain), options.model, "model")->required();
  app.add_option("--batches", options.batches, "samples of a step")->required()->delimiter(',');
  app.add_option("--ways", options.ways, "ways of the edges")->required()->delimiter(',');
  app.add_option("--ranks", options.ranks, "ranks of the job");
  app.add_option("--compute", options.compute, "replayed or real");
  app.add_option("--budget-ms", budget_ms, "time for one row");
  app.add_flag("-c", options.check, "check the parameters");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  options.budget = std::chrono::milliseconds(budget_ms);
  return options;
}

bool is_training(int argc, char** argv) { return argc > 1 && std::string_view(argv[1]) == kTrain; }

}  // namespace weft::bench
