// Trains a small convolutional network on ten classes of images, data-parallel over the ranks:
//   mpirun -n 4 image_classifier                                on digits that the program draws
//   mpirun -n 4 image_classifier --idx train-images train-labels    on MNIST, Fashion-MNIST
//   mpirun -n 4 image_classifier --cifar data_batch_1.bin ...       on CIFAR-10
//   mpirun -n 4 image_classifier --on gpu                       parameters, gradients and all work
//   mpirun -n 4 image_classifier --all-reduce                   without a parameter server
//   mpirun -n 4 image_classifier --on gpu --all-reduce --graph  each step one graph
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "exchange.hpp"
#include "gpu.hpp"
#include "gpu_network.hpp"
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
using weft::Memory;
using weft::Tensor;

/// Where a rank computes, and how the ranks learn from each other.
struct Ways {
  bool on_gpu = false;
  bool all_reduce = false;
  bool graph = false;  // on a GPU, by all_reduce: a step is captured once, and launched each time
};

class Job {
 public:
  Job(weft::World& world, const Options& options, const Ways& ways, const Images& all)
      : world_(world),
        options_(options),
        all_(all),
        by_graph_(ways.graph),
        network_(all.channels, all.height, all.width),
        memory_(ways.on_gpu ? Memory::gpu() : Memory::host()),
        gpu_(ways.on_gpu ? open_gpu() : nullptr),
        exchange_(open_exchange(ways)),
        draws_(all, options.seed, world.rank()),
        progress_(options, world.rank() == 0) {
    for (const auto& spec : specs()) {
      parameters_.push_back(exchange_->parameter(spec.name));
      gradients_.push_back(exchange_->gradient(spec.name));
    }
    if (gpu_) gpu_network_ = std::make_unique<images::GpuNetwork>(world, *gpu_, all, options.batch);
  }

  int run() {
    begin();
    for (int step = 1; step <= progress_.steps(); ++step) progress_.take(step, train_step());
    const int code = world_.rank() == 0 ? judge() : images::kLearned;
    // Leave before the table is destroyed: other ranks may be reading this rank's shard.
    world_.leave().or_throw();
    return code;
  }

 private:
  /// In the order of Weights.
  std::vector<weft::pslib::TensorSpec> specs() const {
    const auto features = static_cast<std::int64_t>(network_.features());
    return {{"first", {Network::kFirst, all_.channels, 3, 3}},
            {"first_bias", {Network::kFirst}},
            {"second", {Network::kSecond, Network::kFirst, 3, 3}},
            {"second_bias", {Network::kSecond}},
            {"classes", {images::kClasses, features}},
            {"classes_bias", {images::kClasses}}};
  }

  /// The GPU that weft gives this rank. The first tensor there finds it, or says why there is none.
  std::unique_ptr<images::Gpu> open_gpu() {
    const Tensor there = world_.allocate(weft::DType::f32, {1}, memory_);
    return std::make_unique<images::Gpu>(there.memory().ordinal());
  }
  std::unique_ptr<images::Exchange> open_exchange(const Ways& ways) {
    if (ways.all_reduce)
      return std::make_unique<images::ByAllReduce>(world_, specs(), memory_, options_.learning_rate,
                                                   gpu_.get());
    return std::make_unique<images::ByTable>(world_, specs(), memory_, options_.learning_rate);
  }

  static Weights weights(const std::vector<Tensor>& all) {
    return {all[0].as<float>(), all[1].as<float>(), all[2].as<float>(),
            all[3].as<float>(), all[4].as<float>(), all[5].as<float>()};
  }
  /// Tensors for the parameters that the processor reaches: themselves unless they are on a GPU.
  std::vector<Tensor> parameters_here() {
    if (!gpu_) return parameters_;
    std::vector<Tensor> here;
    for (const Tensor& there : parameters_)
      here.push_back(world_.allocate(there.dtype(), there.shape()));
    return here;
  }

  void begin() {
    const std::vector<Tensor> first = parameters_here();
    for (const Tensor& tensor : first) std::ranges::fill(tensor.as<float>(), 0.0F);
    images::initialize(weights(first), all_, options_.seed);
    if (gpu_)
      for (std::size_t i = 0; i < first.size(); ++i) world_.copy(first[i], parameters_[i]);
    exchange_->begin();
  }

  double train_step() {
    numbers_.resize(static_cast<std::size_t>(options_.batch));
    for (std::size_t& number : numbers_) number = draws_.next();
    if (gpu_ && exchange_->goes_by_stream()) return train_by_stream();
    double loss = 0.0;
    if (gpu_) {
      gpu_network_->set(numbers_);
      gpu_network_->train(parameters_, gradients_);
      loss = gpu_network_->loss();
    } else {
      loss = train_here();
    }
    exchange_->update();
    return loss;
  }

  /// The stream has all of the step, the sum over the ranks too.
  double train_by_stream() {
    gpu_network_->set(numbers_);
    exchange_->set();
    const auto step = [this] {
      gpu_network_->train(parameters_, gradients_);
      exchange_->put_on_stream();
    };
    if (by_graph_) {
      if (!gpu_->has_graph()) gpu_->capture(step);
      gpu_->launch_graph();
    } else {
      step();
    }
    const double loss = gpu_network_->loss();
    exchange_->check();
    return loss;
  }

  double train_here() {
    for (const Tensor& gradient : gradients_) std::ranges::fill(gradient.as<float>(), 0.0F);
    double loss = 0.0;
    for (const std::size_t number : numbers_)
      loss += network_.train(weights(parameters_), all_.image(number), all_.classes[number],
                             1.0F / static_cast<float>(options_.batch), weights(gradients_));
    return loss / options_.batch;
  }

  int judge() {
    const std::vector<Tensor> last = parameters_here();
    if (gpu_) {
      gpu_->wait();
      for (std::size_t i = 0; i < last.size(); ++i) world_.copy(parameters_[i], last[i]);
    }
    const std::size_t held_back = draws_.held_back();
    std::size_t right = 0;
    for (std::size_t i = all_.count() - held_back; i < all_.count(); ++i) {
      const auto scores = network_.forward(weights(last), all_.image(i));
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
  const bool by_graph_;
  Network network_;
  const Memory memory_;
  std::unique_ptr<images::Gpu> gpu_;  // null: the processor computes
  std::unique_ptr<images::Exchange> exchange_;
  std::vector<Tensor> parameters_, gradients_;
  std::unique_ptr<images::GpuNetwork> gpu_network_;
  std::vector<std::size_t> numbers_;  // of a step's images
  images::Draws draws_;
  images::Progress progress_;
};

int run(int argc, char** argv) {
  Options options;
  Ways ways;
  CLI::App app("Trains a small convolutional network, data-parallel over the ranks of the job.",
               "image_classifier");
  add_options(app, options);
  std::string place = "host";
  app.add_option("--on", place, "where each rank computes")
      ->check(CLI::IsMember({"host", "gpu"}))
      ->capture_default_str();
  app.add_flag("--all-reduce", ways.all_reduce,
               "add the ranks' gradients up, without a parameter server");
  app.add_flag("--graph", ways.graph,
               "with --on gpu --all-reduce, ranks of one host: capture a step as a graph, and "
               "launch it each time");
  app.final_callback([&] {
    if (ways.graph && (place != "gpu" || !ways.all_reduce))
      throw CLI::ValidationError("--graph", "needs --on gpu and --all-reduce");
  });
  if (!images::parse(app, argc, argv)) return images::kLearned;
  ways.on_gpu = place == "gpu";
  // Before joining: if files can't be used, every rank ends at once and none waits.
  const Images all = load(options);
  weft::World world = weft::World::join();
  return Job(world, options, ways, all).run();
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
