// Trains a wide and deep model that predicts which advertisements are clicked; the categories' rows
// are in a sparse table:
//   mpirun -n 4 click_model                     on made-up clicks
//   mpirun -n 4 click_model --csv train.csv     on a file with Criteo's columns
//   mpirun -n 4 click_model --servers 1         with a rank that only serves
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "clicks.hpp"
#include "model.hpp"
#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace {

using clicks::Impression;
namespace ps = weft::pslib;

enum ExitCode : int { kLearned = 0, kDidNotLearn = 1, kBadInput = 2, kJobFailed = 3 };

// The default run has learned if its loss is below this share of the click rate's entropy.
constexpr double kLearnedShare = 0.9;
constexpr std::size_t kMadeUp = 40'000;

struct Options {
  std::string csv;
  std::string generate;
  std::size_t rows = kMadeUp;
  int steps = 0;  // 0: kDefaultSteps, and the final loss decides the exit code
  int batch = 128;
  int servers = 0;
  std::uint64_t seed = 1;

  static constexpr int kDefaultSteps = 300;
};

ps::SparseOptions row_options(const Options& options) {
  ps::SparseOptions rows;
  rows.dim = clicks::kRow;
  rows.optimizer = ps::Optimizer::adagrad(0.05F, 1e-6F);
  rows.seed = options.seed;
  rows.spread = 0.05F;
  rows.request_rows = static_cast<std::size_t>(options.batch) * Impression::kCategories;
  return rows;
}

class Job {
 public:
  Job(weft::World& world, const Options& options, const std::vector<Impression>& shown)
      : world_(world),
        options_(options),
        shown_(shown),
        server_(world, {.dedicated_servers = options.servers}),
        dense_(server_.table("dense",
                             {{"hidden", {clicks::kInputs, clicks::kHidden}},
                              {"hidden_bias", {clicks::kHidden}},
                              {"output", {clicks::kHidden}},
                              {"numbers", {Impression::kNumbers}},
                              {"bias", {1}}},
                             ps::Optimizer::adam(0.003F))),
        rows_(server_.sparse_table("categories", row_options(options))),
        random_(options.seed + static_cast<std::uint64_t>(world.rank())) {}

  int run() {
    const int code = server_.works() ? train() : serve();
    // Leave before the tables are destroyed: other ranks may be reading this rank's shard.
    world_.leave().or_throw();
    return code;
  }

 private:
  int serve() {
    ps::Table* const dense[] = {&dense_};
    ps::SparseTable* const sparse[] = {&rows_};
    server_.serve(dense, sparse).or_throw();
    const ps::SparseStatistics held = rows_.statistics();
    fmt::print("server {}: {} categories in {:.1f} MB, {} looked up\n", world_.rank(), held.rows,
               static_cast<double>(held.bytes) * 1e-6, held.looked_up);
    return kLearned;
  }

  int train() {
    const clicks::Dense parameters =
        bound([&](const char* name) { return dense_.parameter(name); });
    const clicks::Dense gradients = bound([&](const char* name) { return dense_.gradient(name); });
    start(parameters);
    const int steps = options_.steps > 0 ? options_.steps : Options::kDefaultSteps;
    const int last = std::max(1, steps / 6);
    double recent = 0.0;
    double final_loss = 0.0;
    for (int step = 1; step <= steps; ++step) {
      const double loss = train_step(parameters, gradients);
      recent += loss;
      if (step > steps - last) final_loss += loss / last;
      if (step % 50 != 0) continue;
      if (is_first()) fmt::print("step {:>5}/{}  loss {:.4f}\n", step, steps, recent / 50);
      recent = 0.0;
    }
    rows_.flush().or_throw();
    if (!is_first()) return kLearned;
    const double entropy = clicks::entropy(shown_);
    const bool learned = options_.steps > 0 || final_loss < kLearnedShare * entropy;
    fmt::print("loss {:.4f} nats, {:.0f} % of the {:.4f} of the share of clicks alone{}\n",
               final_loss, 100 * final_loss / entropy, entropy, learned ? "" : ": not learned");
    return learned ? kLearned : kDidNotLearn;
  }

  bool is_first() const { return world_.rank() == 0; }

  template <typename Find>
  static clicks::Dense bound(const Find& find) {
    const auto floats = [&](const char* name) { return find(name).template as<float>(); };
    return {floats("hidden"), floats("hidden_bias"), floats("output"), floats("numbers"),
            floats("bias")};
  }

  // initialize() copies the first worker's values to all workers.
  void start(const clicks::Dense& parameters) {
    std::mt19937 random(static_cast<std::uint32_t>(options_.seed));
    std::normal_distribution<float> normal(0.0F, std::sqrt(2.0F / clicks::kInputs));
    for (float& weight : parameters.hidden) weight = normal(random);
    for (float& weight : parameters.output) weight = normal(random);
    dense_.initialize().or_throw();
  }

  // Draws impressions at random, different ones on each rank, looks up their categories' rows, and
  // makes one update of both tables.
  double train_step(const clicks::Dense& parameters, const clicks::Dense& gradients) {
    batch_.clear();
    ids_.clear();
    for (int i = 0; i < options_.batch; ++i) {
      const Impression& one = shown_[random_() % shown_.size()];
      batch_.push_back(one);
      ids_.insert(ids_.end(), one.categories.begin(), one.categories.end());
    }
    values_.resize(ids_.size() * clicks::kRow);
    slopes_.resize(values_.size());
    rows_.lookup(ids_, values_).or_throw();
    const double loss = model_.train(batch_, parameters, values_, gradients, slopes_);
    rows_.push(ids_, slopes_).or_throw();
    dense_.push_pull().or_throw();
    return loss;
  }

  weft::World& world_;
  const Options& options_;
  const std::vector<Impression>& shown_;
  ps::ParameterServer server_;
  ps::Table dense_;
  ps::SparseTable rows_;
  clicks::Model model_;
  std::mt19937_64 random_;
  std::vector<Impression> batch_;
  std::vector<std::uint64_t> ids_;
  std::vector<float> values_;
  std::vector<float> slopes_;
};

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a wide and deep model of clicks, data-parallel over the ranks of the job.",
               "click_model");
  app.footer(
      "Exit codes: 0 success, 1 the default run did not learn, 2 bad input, 3 the job failed.");
  app.add_option("--csv", options.csv, "impressions: label, I1-I13, C1-C26 [made up]");
  app.add_option("--generate", options.generate, "only write made-up impressions to this file");
  app.add_option("--rows", options.rows, "made-up impressions")
      ->check(CLI::Range(std::size_t{1000}, std::size_t{100'000'000}))
      ->capture_default_str();
  app.add_option("--steps", options.steps,
                 fmt::format("training steps [{}, and the final loss decides the exit code]",
                             Options::kDefaultSteps))
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--batch", options.batch, "impressions per rank and step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--servers", options.servers,
                 "ranks that only serve; 0: every rank trains and serves")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of all random numbers")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kLearned;
  } catch (const CLI::ParseError& error) {
    throw clicks::DataError(fmt::format("{}; --help lists the options", error.what()));
  }
  if (!options.generate.empty()) {
    clicks::generate(options.generate, options.rows, options.seed);
    return kLearned;
  }
  const std::vector<Impression> shown =
      options.csv.empty() ? clicks::made_up(options.rows, options.seed) : clicks::read(options.csv);
  weft::World world = weft::World::join();
  return Job(world, options, shown).run();
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const clicks::DataError& error) {
  fmt::print(stderr, "click_model: {}\n", error.what());
  return kBadInput;
} catch (const std::exception& error) {
  fmt::print(stderr, "click_model: {}\n", error.what());
  return kJobFailed;
}
