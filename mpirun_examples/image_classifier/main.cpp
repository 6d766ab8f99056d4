// Trains a small convolutional network on ten classes of images, data-parallel over the ranks:
//   mpirun -n 4 image_classifier                                on digits that the program draws
//   mpirun -n 4 image_classifier --idx train-images train-labels    on MNIST, Fashion-MNIST
//   mpirun -n 4 image_classifier --cifar data_batch_1.bin ...       on CIFAR-10
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "images.hpp"
#include "network.hpp"
#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace {

using images::Images;
using images::Network;
using images::Weights;
namespace ps = weft::pslib;

enum ExitCode : int { kLearned = 0, kDidNotLearn = 1, kBadInput = 2, kJobFailed = 3 };

// Guessing has a loss of ln 10 = 2.30.
constexpr double kLearnedLoss = 1.0;
constexpr std::size_t kDrawn = 6000;
constexpr std::size_t kHeldBack = 500;

struct Options {
  std::vector<std::string> idx;  // images, labels
  std::vector<std::string> cifar;
  int steps = 0;  // 0: kDefaultSteps, and the final loss decides the exit code
  int batch = 32;
  float learning_rate = 0.003F;
  std::uint64_t seed = 1;

  static constexpr int kDefaultSteps = 250;
};

class Job {
 public:
  Job(weft::World& world, const Options& options, const Images& all)
      : world_(world),
        options_(options),
        all_(all),
        held_back_(std::min(kHeldBack, all.count() / 5)),
        network_(all.channels, all.height, all.width),
        server_(world),
        table_(server_.table("network", specs(), ps::Optimizer::adam(options.learning_rate))),
        weights_(bound([&](const char* name) { return table_.parameter(name); })),
        gradients_(bound([&](const char* name) { return table_.gradient(name); })),
        random_(options.seed + static_cast<std::uint64_t>(world.rank())) {}

  int run() {
    start();
    const int steps = options_.steps > 0 ? options_.steps : Options::kDefaultSteps;
    const int last = std::max(1, steps / 6);
    double recent = 0.0;
    double final_loss = 0.0;
    for (int step = 1; step <= steps; ++step) {
      const double loss = train_step();
      recent += loss;
      if (step > steps - last) final_loss += loss / last;
      if (step % 25 != 0) continue;
      if (is_first()) fmt::print("step {:>5}/{}  loss {:.4f}\n", step, steps, recent / 25);
      recent = 0.0;
    }
    const int code = is_first() ? judge(final_loss) : kLearned;
    // Leave before the table is destroyed: other ranks may be reading this rank's shard.
    world_.leave().or_throw();
    return code;
  }

 private:
  bool is_first() const { return world_.rank() == 0; }

  std::vector<ps::TensorSpec> specs() const {
    const auto features = static_cast<std::int64_t>(network_.features());
    return {{"first", {Network::kFirst, all_.channels, 3, 3}},
            {"first_bias", {Network::kFirst}},
            {"second", {Network::kSecond, Network::kFirst, 3, 3}},
            {"second_bias", {Network::kSecond}},
            {"classes", {images::kClasses, features}},
            {"classes_bias", {images::kClasses}}};
  }

  template <typename Find>
  static Weights bound(const Find& find) {
    const auto floats = [&](const char* name) { return find(name).template as<float>(); };
    return {floats("first"),       floats("first_bias"), floats("second"),
            floats("second_bias"), floats("classes"),    floats("classes_bias")};
  }

  // initialize() copies the first worker's values to all workers. Source: He, Zhang, Ren, Sun 2015.
  void start() {
    std::mt19937 random(static_cast<std::uint32_t>(options_.seed));
    const auto fill = [&](std::span<float> weights, double inputs) {
      std::normal_distribution<float> normal(0.0F, static_cast<float>(std::sqrt(2.0 / inputs)));
      for (float& weight : weights) weight = normal(random);
    };
    fill(weights_.first, 9.0 * all_.channels);
    fill(weights_.second, 9.0 * Network::kFirst);
    fill(weights_.classes, static_cast<double>(network_.features()));
    table_.initialize().or_throw();
  }

  // Draws images at random, different ones on each rank; the last kHeldBack images are never drawn.
  double train_step() {
    for (const auto& all : {gradients_.first, gradients_.first_bias, gradients_.second,
                            gradients_.second_bias, gradients_.classes, gradients_.classes_bias})
      std::ranges::fill(all, 0.0F);
    double loss = 0.0;
    for (int i = 0; i < options_.batch; ++i) {
      const std::size_t at = random_() % (all_.count() - held_back_);
      loss += network_.train(weights_, all_.image(at), all_.classes[at],
                             1.0F / static_cast<float>(options_.batch), gradients_);
    }
    table_.push_pull().or_throw();
    return loss / options_.batch;
  }

  int judge(double loss) {
    std::size_t right = 0;
    for (std::size_t i = all_.count() - held_back_; i < all_.count(); ++i) {
      const auto scores = network_.forward(weights_, all_.image(i));
      right += std::ranges::max_element(scores) - scores.begin() == all_.classes[i] ? 1 : 0;
    }
    const bool learned = options_.steps > 0 || loss < kLearnedLoss;
    fmt::print(
        "loss {:.4f} nats ({:.2f} is guessing), {:.1f} % of {} images held back are right{}\n",
        loss, std::log(images::kClasses),
        100.0 * static_cast<double>(right) / static_cast<double>(held_back_), held_back_,
        learned ? "" : ": not learned");
    return learned ? kLearned : kDidNotLearn;
  }

  weft::World& world_;
  const Options& options_;
  const Images& all_;
  const std::size_t held_back_;
  Network network_;
  ps::ParameterServer server_;
  ps::Table table_;
  Weights weights_;
  Weights gradients_;
  std::mt19937_64 random_;
};

Images load(const Options& options) {
  if (!options.idx.empty()) return images::read_idx(options.idx[0], options.idx[1]);
  if (!options.cifar.empty()) return images::read_cifar(options.cifar);
  return images::draw(kDrawn, options.seed);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small convolutional network, data-parallel over the ranks of the job.",
               "image_classifier");
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kLearned;
  } catch (const CLI::ParseError& error) {
    throw images::DataError(fmt::format("{}; --help lists the options", error.what()));
  }
  // Before joining: if files can't be used, every rank ends at once and none waits.
  const Images all = load(options);
  weft::World world = weft::World::join();
  return Job(world, options, all).run();
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const images::DataError& error) {
  fmt::print(stderr, "image_classifier: {}\n", error.what());
  return kBadInput;
} catch (const std::exception& error) {
  fmt::print(stderr, "image_classifier: {}\n", error.what());
  return kJobFailed;
}
