// A program that trains a lesson over the ranks of its job: the command line, the steps, the lines
// that it prints.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lessons/lesson.hpp"

namespace lessons {

enum ExitCode : int { kLearned = 0, kDidNotLearn = 1, kBadInput = 2, kJobFailed = 3 };

struct Options {
  int steps = 0;  ///< 0: Program::steps, and the last losses decide the exit code
  int batch = 16;
  float learning_rate = 0.005F;
  std::uint64_t seed = 1;
  int threads = 0;
  std::string way = "views";
  std::string losses{};  ///< file; empty: none
  bool reports = false;
};

struct Program {
  std::string name;
  std::string purpose;  ///< a sentence
  int steps = 0;        ///< of a default run
  double target = 0;    ///< a default run has learned if its last losses are below this on average
  std::function<std::string(double loss)> text{};
  std::function<std::unique_ptr<Lesson>(const Options&)> make{};
};

/// The body of main(). `defaults` are the lesson's. Returns the exit code; errors are one line
/// each.
int run(const Program& program, const Options& defaults, int argc, char** argv);

/// The ways of ExecutorOptions, by name: "views", "slots", "copies" (slots, from memory that each
/// send copies first) and "rendezvous".
weft::dataflow::ExecutorOptions executor_options(const std::string& way);

}  // namespace lessons
