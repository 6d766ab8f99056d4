// The command line of charlm_graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line.hpp"

namespace charlm {

struct GraphJobOptions {
  std::string text;
  std::optional<int> steps;  ///< none: kDefaultSteps, and the final loss decides the exit code
  std::optional<int> batch;  ///< windows of a step, of all ranks together
  int length = 64;
  int hidden = 128;
  int embed = 32;
  float learning_rate = 0.01F;
  std::uint64_t seed = 1;
  int threads = 0;
  bool reports = false;
  std::string losses;  ///< file; empty: none

  static constexpr int kDefaultSteps = 100;
  static constexpr int kDefaultBatch = 32;

  /// The default is rounded up to a multiple of `ranks`. Throws UsageError if the user's number is
  /// not a multiple.
  int batch_for(int ranks) const;

  /// Returns nullopt after answering --help. Throws UsageError.
  static std::optional<GraphJobOptions> parse(int argc, char** argv);
};

}  // namespace charlm
