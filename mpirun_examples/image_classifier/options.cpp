#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace images {
namespace {

constexpr std::size_t kDrawn = 6000;

}  // namespace

void add_options(CLI::App& app, Options& options) {
  app.footer(
      "Exit codes: 0 success, 1 the default run did not learn, 2 bad input, 3 the job failed.");
  auto* idx = app.add_option("--idx", options.idx, "files of images and labels in MNIST's format")
                  ->expected(2);
  app.add_option("--cifar", options.cifar, "binary batches of CIFAR-10")->excludes(idx);
  app.add_option("--steps", options.steps,
                 fmt::format("training steps [{}, and the final loss decides the exit code]",
                             Options::kDefaultSteps))
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--batch", options.batch, "images per rank and step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "learning rate of Adam")
      ->check(CLI::Range(1e-6F, 1.0F))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of all random numbers")->capture_default_str();
  app.add_option("--losses", options.losses, "file for rank 0's loss in each step");
}

bool parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw DataError(fmt::format("{}; --help lists the options", error.what()));
  }
  return true;
}

Images load(const Options& options) {
  if (!options.idx.empty()) return read_idx(options.idx[0], options.idx[1]);
  if (!options.cifar.empty()) return read_cifar(options.cifar);
  return draw(kDrawn, options.seed);
}

}  // namespace images
