// Starts a program and captures its output.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace weft::bench {

struct Outcome {
  int exit_code = 0;   ///< 128 + signal number if a signal ended it
  std::string output;  ///< all of stdout
  std::string errors;  ///< all of stderr
};

/// Runs `words` (a path or a name on PATH, then arguments) to its end. After `limit`, stops the
/// program and the ranks it started. Throws Error(system) if the process can't be created,
/// std::runtime_error if `limit` passed. Leaves no file behind.
Outcome launch(const std::vector<std::string>& words, std::chrono::seconds limit);

/// The first of `names` that is a program on PATH.
std::optional<std::string> find_program(const std::vector<std::string>& names);

}  // namespace weft::bench
