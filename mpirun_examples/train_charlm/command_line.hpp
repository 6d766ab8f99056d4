// The parts of a command line that the programs of the character model share.
#pragma once

#include <optional>
#include <stdexcept>

namespace CLI {
class App;
}

namespace charlm {

enum ExitCode : int {
  kLearned = 0,
  kDidNotLearn = 1,  ///< a run of the default length ended at a loss near the unigram entropy
  kBadInput = 2,     ///< options, text or an output file
  kJobFailed = 3     ///< joining failed, or a rank failed
};

/// Invalid options; the text is one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns false after answering --help. Throws UsageError.
bool parse(CLI::App& app, int argc, const char* const* argv);

/// Windows per step of all ranks together: `usual`, rounded up to a multiple of `ranks`, unless the
/// user gave `batch`. Throws UsageError if that is not a multiple.
int shared_batch(std::optional<int> batch, int usual, int ranks);

}  // namespace charlm
