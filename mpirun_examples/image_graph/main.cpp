// Trains the network of image_classifier as a graph: every rank is a worker, the variables are
// spread over all ranks, and an executor runs each rank's part. The same options and losses.
//   mpirun -n 4 image_graph
//   mpirun -n 4 image_graph --report      also prints how each tensor moves, and what it cost
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "images.hpp"
#include "kernels.hpp"
#include "model.hpp"
#include "network.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "start.hpp"
#include "weft/executor.hpp"
#include "weft/weft.hpp"

namespace {

using images::Images;
using images::Options;
namespace flow = weft::dataflow;

flow::Graph graph_of(const weft::World& world, const Options& options, const Images& all) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const flow::Graph model =
      images::make_graph(all, {.batch = options.batch, .learning_rate = options.learning_rate});
  return flow::replicate(model, {.workers = ranks, .servers = ranks}).graph;
}

class Job {
 public:
  Job(weft::World& world, const Options& options, const Images& all, int threads)
      : world_(world),
        options_(options),
        all_(all),
        executor_(world, graph_of(world, options, all), images::make_kernels(),
                  {.threads = threads}),
        x_(executor_.feed(own("x"))),
        labels_(executor_.feed(own("labels"))),
        draws_(all, options.seed, world.rank()),
        progress_(options, world.rank() == 0) {}

  int run(bool reports) {
    if (reports && world_.rank() == 0) fmt::print("{}\n", executor_.plan().text());
    initialize();
    for (int step = 1; step <= progress_.steps(); ++step) progress_.take(step, train_step());
    if (reports && world_.rank() == 0) fmt::print("{}\n", executor_.report().text());
    const bool learned = progress_.has_learned();
    if (world_.rank() == 0)
      fmt::print("loss {:.4f} nats{}\n", progress_.final_loss(), learned ? "" : ": not learned");
    world_.leave().or_throw();
    return learned ? images::kLearned : images::kDidNotLearn;
  }

 private:
  /// The name of this worker's copy of a feed or fetch.
  std::string own(const char* name) const { return fmt::format("{}@{}", name, world_.rank()); }

  /// Every rank computes all first values, and writes those of its own variables.
  void initialize() {
    const flow::Graph& part = executor_.plan().parts[static_cast<std::size_t>(world_.rank())].graph;
    std::map<std::string, std::vector<float>> values;
    const flow::Graph model = images::make_graph(all_, {});
    const auto floats = [&](const char* name) {
      auto& made = values[name];
      made.resize(
          static_cast<std::size_t>(model.type({model.find(name), 0}).shape.shape().elements()));
      return std::span(made);
    };
    images::initialize({floats("first"), floats("first_bias"), floats("second"),
                        floats("second_bias"), floats("classes"), floats("classes_bias")},
                       all_, options_.seed);
    for (const flow::Node& node : part.nodes())
      if (node.definition->name == "weft.Variable" && values.contains(node.name))
        std::ranges::copy(values[node.name], executor_.variable(node.name).as<float>().begin());
  }

  double train_step() {
    const std::span<std::int64_t> labels = labels_.as<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::size_t at = draws_.next();
      std::ranges::copy(all_.image(at), x_.as<float>().subspan(i * all_.size_of_one()).begin());
      labels[i] = all_.classes[at];
    }
    const flow::Tensors fetched = executor_.run({{own("x"), x_}, {own("labels"), labels_}}).value();
    return fetched.find(own("loss"))->second.as<float>()[0];
  }

  weft::World& world_;
  const Options& options_;
  const Images& all_;
  flow::Executor executor_;
  weft::Tensor x_;
  weft::Tensor labels_;
  images::Draws draws_;
  images::Progress progress_;
};

int run(int argc, char** argv) {
  Options options;
  int threads = 0;
  bool reports = false;
  CLI::App app(
      "Trains a small convolutional network as a dataflow graph over the ranks of the job.",
      "image_graph");
  add_options(app, options);
  app.add_option("--threads", threads, "threads that run nodes beside the main one")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_flag("--report", reports, "print how each tensor moves between ranks, and what it cost");
  if (!images::parse(app, argc, argv)) return images::kLearned;
  // Before joining: if files can't be used, every rank ends at once and none waits.
  const Images all = load(options);
  weft::World world = weft::World::join();
  return Job(world, options, all, threads).run(reports);
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const images::DataError& error) {
  fmt::print(stderr, "image_graph: {}\n", error.what());
  return images::kBadInput;
} catch (const std::exception& error) {
  fmt::print(stderr, "image_graph: {}\n", error.what());
  return images::kJobFailed;
}
