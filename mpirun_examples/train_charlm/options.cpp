#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace charlm {
namespace {

void declare(CLI::App& app, Options& o) {
  // Bounds beyond every sensible run, so that a typing error is reported, not tried.
  const CLI::Range size(1, 16384);
  const CLI::Range count(1, 100'000'000);
  app.add_option("--text", o.text, "UTF-8 text file to learn")->required();
  app.add_option("--steps", o.steps, fmt::format("training steps [{}]", Options::kDefaultSteps))
      ->check(count);
  app.add_option("--batch", o.batch,
                 fmt::format("windows per step, over all ranks; a multiple of the ranks [{}, "
                             "rounded up to one]",
                             Options::kDefaultBatch))
      ->check(size);
  app.add_option("--length", o.length, "characters per window")->check(size)->capture_default_str();
  app.add_option("--hidden", o.hidden, "width of the LSTM layer")
      ->check(size)
      ->capture_default_str();
  app.add_option("--embed", o.embed, "width of the embedding")->check(size)->capture_default_str();
  app.add_option("--learning-rate", o.learning_rate, "learning rate of Adam")
      ->check(CLI::Range(1e-6F, 1.0F))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "seed of initialisation, windows and sample")
      ->capture_default_str();
  app.add_option("--sample", o.sample, "characters to write when trained; 0: none")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--servers", o.servers,
                 "number of highest ranks that only serve; 0: every rank trains and serves")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--compress", o.compress, "the part of the gradients that is pushed")
      ->check(CLI::IsMember({"all", "int8", "top_k"}))
      ->capture_default_str();
  app.add_option("--publish", o.publish,
                 "steps between two publications of the parameters by rank 0, for rollout_charlm; "
                 "needs WEFT_SUBSCRIBE_ADDR and WEFT_SUBSCRIBE_TOKEN_FILE; 0: never")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  app.add_option(
         "--readers", o.readers,
         "with --publish: number of readers that the first step waits for, at most a minute")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--losses", o.losses,
                 "file for every step's loss, as hexadecimal floats: equal runs give equal files");
  app.add_option("--json", o.json, "file for the results and the transfer report");
}

}  // namespace

int Options::batch_for(int ranks) const { return shared_batch(batch, kDefaultBatch, ranks); }

int Options::workers_among(int ranks) const {
  if (servers < ranks) return ranks - servers;
  throw UsageError(
      fmt::format("--servers {} leaves none of {} ranks to train; start more, or let "
                  "fewer serve",
                  servers, ranks));
}

std::optional<Options> Options::parse(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a character-level LSTM on a text, data-parallel over the ranks of the job.",
               "train_charlm");
  app.footer(
      "Exit codes: 0 success, 1 the default run did not learn, 2 bad input, 3 the job failed.\n"
      "Example: mpirun -n 4 train_charlm --text LICENSE");
  declare(app, options);
  if (!charlm::parse(app, argc, argv)) return std::nullopt;
  return options;
}

}  // namespace charlm
