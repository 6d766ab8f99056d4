#include "benchmarks/experiments/experiment.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "benchmarks/experiments/panels.hpp"
#include "benchmarks/output/report.hpp"

namespace weft::bench {
namespace {

constexpr Experiment kExperiments[] = {
    {"fig6", "sizes of all variables of the paper's models, as a distribution", run_fig6},
    {"table1", "the paper's models: bytes, variables, time of a sample", run_table1},
    {"fig8", "steps per second by batch, by each way of an edge", run_fig8},
    {"fig10", "samples per second on 1 to 8 ranks, beside local training", run_fig10},
    {"fig11", "a step with the graph's analysis off and on", run_fig11},
    {"table2", "a step with GPUDirect off and on", run_table2},
    {"poster", "VGG-16 on 4 ranks, and what registering memory takes", run_poster},
};

}  // namespace

std::span<const Experiment> experiments() { return kExperiments; }

const Experiment* experiment_called(std::string_view name) {
  for (const Experiment& experiment : kExperiments)
    if (experiment.name == name) return &experiment;
  return nullptr;
}

std::string experiments_text() {
  std::string text;
  for (const Experiment& experiment : kExperiments)
    text += fmt::format("  {:<12}{}\n", experiment.name, experiment.what);
  return text;
}

int run_experiment(int argc, char** argv) {
  const ExperimentOptions options = parse_experiment(argc, argv);
  const Sheet sheet = experiment_called(options.name)->run(options);
  fmt::print("{}", text_of(sheet));
  std::fflush(stdout);
  if (sheet.rows.empty()) {
    fmt::print(stderr, "{}: nothing was measured, so no file is written\n", options.name);
    return 0;
  }
  // A picture is drawn from its CSV, which stays beside it.
  std::string csv_file = options.csv_file;
  if (csv_file.empty() && !options.svg_file.empty())
    csv_file = std::filesystem::path(options.svg_file).replace_extension(".csv").string();
  if (!csv_file.empty()) write_file(csv_file, csv_of(sheet));
  if (!options.json_file.empty()) write_file(options.json_file, json_of(sheet));
  if (!options.svg_file.empty() && sheet.drawing)
    draw_panels(csv_file, options.svg_file, fmt::format("{}: {}", sheet.name, sheet.title),
                *sheet.drawing);
  return 0;
}

}  // namespace weft::bench
