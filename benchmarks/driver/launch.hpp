// Starting a program and waiting for what it says.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace weft::bench {

struct Outcome {
  int exit_code = 0;   ///< 128 + the signal's number when one ended it
  std::string output;  ///< all of stdout
  std::string errors;  ///< all of stderr
};

/// Runs `words` (a path or a name on PATH, then its arguments) to its end; ends it, with the ranks
/// it has started, when `limit` has passed. Throws Error(system) when no process can be made, and
/// std::runtime_error when the limit has passed. Leaves no file behind.
Outcome launch(const std::vector<std::string>& words, std::chrono::seconds limit);

/// The first of `names` that is a program on PATH.
std::optional<std::string> find_program(const std::vector<std::string>& names);

}  // namespace weft::bench
