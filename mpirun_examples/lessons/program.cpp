#include "lessons/program.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lessons/training.hpp"
#include "weft/weft.hpp"

namespace lessons {
namespace flow = weft::dataflow;
namespace {

constexpr int kShown = 25;

/// The text is one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

const std::map<std::string, flow::ExecutorOptions>& ways() {
  static const std::map<std::string, flow::ExecutorOptions> all{
      {"views", {.way = flow::EdgeWay::views}},
      {"slots", {.way = flow::EdgeWay::slots}},
      {"copies", {.sent = flow::SentMemory::plain, .way = flow::EdgeWay::slots}},
      {"rendezvous", {.way = flow::EdgeWay::rendezvous}}};
  return all;
}

bool parse(const Program& program, Options& o, int argc, char** argv) {
  CLI::App app(program.purpose, program.name);
  app.footer(
      "Exit codes: 0 success, 1 the default run did not learn, 2 bad input, 3 the job failed.\n"
      "Example: mpirun -n 4 " +
      program.name + " --way slots");
  std::vector<std::string> names;
  for (const auto& [name, options] : ways()) names.push_back(name);
  app.add_option("--steps", o.steps,
                 fmt::format("training steps [{}, and the last losses decide the exit code]",
                             program.steps))
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--batch", o.batch, "sentences per rank and step")
      ->check(CLI::Range(2, 65536))
      ->capture_default_str();
  app.add_option("--learning-rate", o.learning_rate, "learning rate of Adam")
      ->check(CLI::Range(1e-6F, 1.0F))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "seed of the corpus and of all first values")
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that run nodes beside the main one")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--way", o.way, "the way of tensors between ranks; the losses are the same")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  app.add_option("--losses", o.losses, "file for every step's loss, as hexadecimal floats");
  app.add_flag("--report", o.reports, "print how each tensor moves between ranks, and its cost");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; --help lists the options", error.what()));
  }
  return true;
}

/// Rank 0's lines.
class Lines {
 public:
  Lines(const Program& program, const Options& options, int steps, bool is_shown)
      : program_(program), steps_(steps), is_shown_(is_shown) {
    if (!is_shown || options.losses.empty()) return;
    file_.open(options.losses);
    if (!file_)
      throw UsageError(fmt::format("{}: can't be written; choose another path", options.losses));
  }

  void take(int step, double loss) {
    recent_ += (loss - recent_) / ++count_;
    if (file_.is_open()) file_ << fmt::format("{} {:a}\n", step, loss) << std::flush;
    if (step == steps_ || step % kShown == 0) {
      if (is_shown_) fmt::print("step {:>5}/{}  {}\n", step, steps_, program_.text(recent_));
      std::fflush(stdout);
      last_ = recent_;
      recent_ = 0.0;
      count_ = 0;
    }
  }
  /// The mean of the steps since the last line but one.
  double last() const noexcept { return last_; }

 private:
  const Program& program_;
  const int steps_;
  const bool is_shown_;
  std::ofstream file_;
  double recent_ = 0.0;
  int count_ = 0;
  double last_ = 0.0;
};

int train(const Program& program, const Options& options) {
  const auto lesson = program.make(options);
  weft::World world = weft::World::join();
  const bool is_first = world.rank() == 0;
  const int steps = options.steps > 0 ? options.steps : program.steps;
  Lines lines(program, options, steps, is_first);
  flow::ExecutorOptions how = executor_options(options.way);
  how.name = program.name;
  how.threads = options.threads;
  std::optional<flow::Executor> executor(std::in_place, world, graph_of(*lesson, world.size()),
                                         lesson->kernels(), how);
  if (is_first && options.reports) fmt::print("{}\n", executor->plan().text());
  Training training(*executor, *lesson, world.rank());
  for (int step = 1; step <= steps; ++step) lines.take(step, training.step());
  if (is_first && options.reports) fmt::print("{}\n", executor->report().text());
  const bool learned = !is_first || options.steps > 0 || lines.last() < program.target;
  if (is_first) fmt::print("{}{}\n", program.text(lines.last()), learned ? "" : ": not learned");
  // By rendezvous a slower rank may still ask for this one's tensors, for which this waits.
  executor.reset();
  world.leave().or_throw();
  return learned ? kLearned : kDidNotLearn;
}

int fail(const Program& program, int exit_code, const char* what) {
  fmt::print(stderr, "{}: {}\n", program.name, what);
  return exit_code;
}

}  // namespace

flow::ExecutorOptions executor_options(const std::string& way) { return ways().at(way); }

int run(const Program& program, const Options& defaults, int argc, char** argv) try {
  Options options = defaults;
  if (!parse(program, options, argc, argv)) return kLearned;
  return train(program, options);
} catch (const UsageError& error) {
  return fail(program, kBadInput, error.what());
} catch (const std::exception& error) {
  return fail(program, kJobFailed, error.what());
}

}  // namespace lessons
