// The command line of experiments.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "benchmarks/driver/catalogue.hpp"
#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/harness/training_protocol.hpp"
#include "benchmarks/workloads/models.hpp"

namespace weft::bench {
namespace {

constexpr std::array<std::size_t, 8> kBatches{1, 2, 4, 8, 16, 32, 64, 128};
constexpr std::array kRanks{1, 2, 3, 4, 5, 6, 7, 8};
constexpr std::array<std::string_view, 3> kFabrics{"shm", "tcp", "verbs"};
constexpr std::array kComputes{kReplayed, kReal};

template <typename Values, typename Known>
void require_known(const char* option, const Values& values, const Known& known) {
  for (const auto& value : values)
    if (std::ranges::find(known, value) == std::ranges::end(known))
      throw BadOption(
          fmt::format("{}: no '{}'; there are {}", option, value, fmt::join(known, ", ")));
}

std::vector<std::string_view> names_of_models() {
  std::vector<std::string_view> names;
  for (const Model& model : models()) names.push_back(model.name);
  return names;
}

}  // namespace

ExperimentOptions parse_experiment(int argc, char** argv) {
  ExperimentOptions options;
  CLI::App app{"Repeats an experiment of the paper, and prints its figures beside these"};
  app.footer("Experiments:\n" + experiments_text());
  app.add_option("experiment", options.name, "one of the list below")->required();
  app.add_flag("--quick", options.quick, "fewer points and runs: within ten minutes on two cores");
  app.add_option("--models", options.models, "gru, lstm, inception, alexnet, fcn-5, vgg-16")
      ->delimiter(',');
  app.add_option("--batches", options.batches, "samples of a step: 1, 2, 4 ... 128")
      ->delimiter(',');
  app.add_option("--ranks", options.ranks, "numbers of ranks, 1 to 8 (fig8 and others: one)")
      ->delimiter(',');
  app.add_option("--ways", options.ways, fmt::format("{}", fmt::join(kWays, ", ")))->delimiter(',');
  app.add_option("--fabric", options.fabric, "shm, tcp or verbs");
  app.add_option("--compute", options.compute,
                 "replayed: the paper's times, as sleeps; real: multiplications");
  app.add_option("--runs", options.runs, "runs of each point: 5, or 3 if --quick")
      ->check(CLI::Range(1U, 1000U));
  app.add_flag("-c,--check", options.check, "check the parameters at the end");
  app.add_option("--json", options.json_file, "write the rows to this file as JSON");
  app.add_option("--csv", options.csv_file, "write them as comma-separated values");
  app.add_option("--svg", options.svg_file, "draw them into this file, by matplotlib");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) std::exit(app.exit(error));  // --help
    throw BadOption(error.what());
  }
  require_known("--models", options.models, names_of_models());
  require_known("--batches", options.batches, kBatches);
  require_known("--ranks", options.ranks, kRanks);
  require_known("--ways", options.ways, kWays);
  require_known("--fabric", std::array{options.fabric}, kFabrics);
  require_known("--compute", std::array{options.compute}, kComputes);
  return options;
}

}  // namespace weft::bench
