// Trains a small convolutional network on ten classes of images, data-parallel over the ranks:
//   mpirun -n 4 image_classifier                                on digits that the program draws
//   mpirun -n 4 image_classifier --idx train-images train-labels    on MNIST, Fashion-MNIST
//   mpirun -n 4 image_classifier --cifar data_batch_1.bin ...       on CIFAR-10
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <vector>

#include "images.hpp"
#include "network.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "start.hpp"
#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace {

using images::Images;
using images::Network;
using images::Options;
using images::Weights;
namespace ps = weft::pslib;

class Job {
 public:
  Job(weft::World& world, const Options& options, const Images& all)
      : world_(world),
        options_(options),
        all_(all),
        network_(all.channels, all.height, all.width),
        server_(world),
        table_(server_.table("network", specs(), ps::Optimizer::adam(options.learning_rate))),
        weights_(bound([&](const char* name) { return table_.parameter(name); })),
        gradients_(bound([&](const char* name) { return table_.gradient(name); })),
        draws_(all, options.seed, world.rank()),
        progress_(options, world.rank() == 0) {}

  int run() {
    // Table::initialize() copies the first worker's values to all workers.
    images::initialize(weights_, all_, options_.seed);
    table_.initialize().or_throw();
    for (int step = 1; step <= progress_.steps(); ++step) progress_.take(step, train_step());
    const int code = world_.rank() == 0 ? judge() : images::kLearned;
    // Leave before the table is destroyed: other ranks may be reading this rank's shard.
    world_.leave().or_throw();
    return code;
  }

 private:
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

  double train_step() {
    for (const auto& all : {gradients_.first, gradients_.first_bias, gradients_.second,
                            gradients_.second_bias, gradients_.classes, gradients_.classes_bias})
      std::ranges::fill(all, 0.0F);
    double loss = 0.0;
    for (int i = 0; i < options_.batch; ++i) {
      const std::size_t at = draws_.next();
      loss += network_.train(weights_, all_.image(at), all_.classes[at],
                             1.0F / static_cast<float>(options_.batch), gradients_);
    }
    table_.push_pull().or_throw();
    return loss / options_.batch;
  }

  int judge() {
    const std::size_t held_back = draws_.held_back();
    std::size_t right = 0;
    for (std::size_t i = all_.count() - held_back; i < all_.count(); ++i) {
      const auto scores = network_.forward(weights_, all_.image(i));
      right += std::ranges::max_element(scores) - scores.begin() == all_.classes[i] ? 1 : 0;
    }
    const bool learned = progress_.has_learned();
    fmt::print(
        "loss {:.4f} nats ({:.2f} is guessing), {:.1f} % of {} images held back are right{}\n",
        progress_.final_loss(), std::log(images::kClasses),
        100.0 * static_cast<double>(right) / static_cast<double>(held_back), held_back,
        learned ? "" : ": not learned");
    return learned ? images::kLearned : images::kDidNotLearn;
  }

  weft::World& world_;
  const Options& options_;
  const Images& all_;
  Network network_;
  ps::ParameterServer server_;
  ps::Table table_;
  Weights weights_;
  Weights gradients_;
  images::Draws draws_;
  images::Progress progress_;
};

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small convolutional network, data-parallel over the ranks of the job.",
               "image_classifier");
  add_options(app, options);
  if (!images::parse(app, argc, argv)) return images::kLearned;
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
  return images::kBadInput;
} catch (const std::exception& error) {
  fmt::print(stderr, "image_classifier: {}\n", error.what());
  return images::kJobFailed;
}
