// What the user asked for on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace charlm {

/// The exit codes of train_charlm.
enum ExitCode : int {
  kLearned = 0,
  kDidNotLearn = 1,  ///< a run of the default length ended at a loss near the unigram entropy
  kBadInput = 2,     ///< options, text or an output file
  kJobFailed = 3     ///< the ranks could not be brought together, or one of them failed
};

/// Options that make no sense: one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

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
  std::string compress = "all";  ///< "int8", or "top_k": a twentieth of each tensor
  int publish = 0;  ///< rank 0 publishes the parameters after each so many steps; 0: never
  int readers = 0;  ///< of what is published, that the first step waits for
  std::string losses;
  std::string json;

  static constexpr int kDefaultSteps = 600;
  static constexpr int kDefaultBatch = 32;

  int steps_in_force() const noexcept { return steps.value_or(kDefaultSteps); }
  /// Windows per step of the whole job. The server averages over ranks, so every rank has equally
  /// many: the default is rounded up to a multiple of `ranks`; throws UsageError where the user's
  /// own number is not one.
  int batch_for(int ranks) const;

  /// Of a job of `ranks`, those that train. Throws UsageError when none would.
  int workers_among(int ranks) const;

  /// Throws UsageError. Answers --help itself and then returns nullopt.
  static std::optional<Options> parse(int argc, char** argv);
};

}  // namespace charlm
