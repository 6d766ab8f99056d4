#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace charlm {

int GraphJobOptions::batch_for(int ranks) const {
  return shared_batch(batch, kDefaultBatch, ranks);
}

std::optional<GraphJobOptions> GraphJobOptions::parse(int argc, char** argv) {
  GraphJobOptions o;
  CLI::App app("Trains the LSTM of train_charlm as a dataflow graph over the ranks of the job.",
               "charlm_graph");
  app.footer(
      "Exit codes: 0 success, 1 the default run did not learn, 2 bad input, 3 the job failed.\n"
      "Example: mpirun -n 4 charlm_graph --text LICENSE");
  const CLI::Range size(1, 16384);
  app.add_option("--text", o.text, "UTF-8 text file to learn")->required();
  app.add_option("--steps", o.steps, fmt::format("training steps [{}]", kDefaultSteps))
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--batch", o.batch,
                 fmt::format("windows per step, over all ranks; a multiple of the ranks [{}, "
                             "rounded up to one]",
                             kDefaultBatch))
      ->check(size);
  app.add_option("--length", o.length, "characters per window")->check(size)->capture_default_str();
  app.add_option("--hidden", o.hidden, "width of the LSTM layer")
      ->check(size)
      ->capture_default_str();
  app.add_option("--embed", o.embed, "width of the embedding")->check(size)->capture_default_str();
  app.add_option("--learning-rate", o.learning_rate, "learning rate of Adam")
      ->check(CLI::Range(1e-6F, 1.0F))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "seed of initialisation and windows")->capture_default_str();
  app.add_option("--threads", o.threads, "threads that run nodes beside the main one")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--losses", o.losses, "file for every step's loss, as hexadecimal floats");
  app.add_flag("--report", o.reports, "print how each tensor moves between ranks, and its cost");
  if (!charlm::parse(app, argc, argv)) return std::nullopt;
  return o;
}

}  // namespace charlm
