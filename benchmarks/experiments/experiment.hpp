// The paper's experiments as commands of weft-bench.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/experiments/sheet.hpp"

namespace weft::bench {

/// The command line of an experiment. Empty lists stand for the experiment's own.
struct ExperimentOptions {
  std::string name{};
  bool quick = false;
  std::vector<std::string> models{};
  std::vector<std::size_t> batches{};
  std::vector<int> ranks{};
  std::vector<std::string> ways{};
  std::string fabric = "shm";
  std::string compute = "replayed";
  unsigned runs = 0;  ///< 0: 5, or 3 if quick
  bool check = false;
  std::string json_file{};
  std::string csv_file{};
  std::string svg_file{};

  unsigned run_count() const noexcept { return runs > 0 ? runs : quick ? 3 : 5; }
};

struct Experiment {
  std::string_view name;
  std::string_view what;  ///< in a line
  /// Prints to stderr what is under way, and a line for all that is skipped.
  Sheet (*run)(const ExperimentOptions& options);
};

/// All experiments, in the order in which they are listed.
std::span<const Experiment> experiments();

/// Null if there is none of that name.
const Experiment* experiment_called(std::string_view name);

/// A line for each experiment, for --help.
std::string experiments_text();

/// Reads the command line. Throws BadOption, with a list of what there is, for an unknown model,
/// batch, number of ranks, fabric, way or form of computation. Prints help and exits if asked to.
ExperimentOptions parse_experiment(int argc, char** argv);

/// Runs, prints, and writes the files asked for. Returns the exit code.
int run_experiment(int argc, char** argv);

Sheet run_fig6(const ExperimentOptions& options);
Sheet run_table1(const ExperimentOptions& options);
Sheet run_fig8(const ExperimentOptions& options);
Sheet run_fig10(const ExperimentOptions& options);
Sheet run_fig11(const ExperimentOptions& options);
Sheet run_table2(const ExperimentOptions& options);
Sheet run_poster(const ExperimentOptions& options);

}  // namespace weft::bench
