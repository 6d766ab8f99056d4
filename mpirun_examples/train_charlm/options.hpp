// The command-line options of train_charlm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line.hpp"

namespace charlm {

struct Options {
  std::string text;
  std::optional<int> steps;
  std::optional<int> batch;
  int length = 64;
  int hidden = 128;
  int embed = 32;
  float learning_rate = 0.01F;
  std::uint64_t seed = 1;
  int sample = 400;
  int servers = 0;               ///< ranks that only serve; 0: every rank works and serves
  std::string compress = "all";  ///< "all", "int8", or "top_k" (5 % of each tensor)
  int publish = 0;  ///< steps between two publications of the parameters by rank 0; 0: never
  int readers = 0;  ///< number of subscribers that the first step waits for
  std::string losses;
  std::string json;

  static constexpr int kDefaultSteps = 600;
  static constexpr int kDefaultBatch = 32;

  int steps_in_force() const noexcept { return steps.value_or(kDefaultSteps); }
  /// Windows per step of the whole job. The server averages over ranks, so every rank has the same
  /// number: the default is rounded up to a multiple of `ranks`. Throws UsageError if the user's
  /// number is not a multiple.
  int batch_for(int ranks) const;

  /// The number of ranks that train in a job of `ranks`. Throws UsageError if it is 0.
  int workers_among(int ranks) const;

  /// Parses the command line. Returns nullopt after answering --help. Throws UsageError.
  static std::optional<Options> parse(int argc, char** argv);
};

}  // namespace charlm
