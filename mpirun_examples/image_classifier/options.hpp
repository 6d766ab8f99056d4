// The command line of the programs that train the network.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "images.hpp"

namespace images {

enum ExitCode : int { kLearned = 0, kDidNotLearn = 1, kBadInput = 2, kJobFailed = 3 };

struct Options {
  std::vector<std::string> idx;  // images, labels
  std::vector<std::string> cifar;
  int steps = 0;  // 0: kDefaultSteps, and the final loss decides the exit code
  int batch = 32;
  float learning_rate = 0.003F;
  std::uint64_t seed = 1;
  std::string losses;  // file; empty: none

  static constexpr int kDefaultSteps = 250;
};

/// Adds the options to `app`, which parse() fills. `options` must outlive both.
void add_options(CLI::App& app, Options& options);
/// Returns false if only the help was asked for. Throws DataError.
bool parse(CLI::App& app, int argc, char** argv);
/// The images to train on: of the files, or drawn. Throws DataError.
Images load(const Options& options);

}  // namespace images
