// Trains the network of image_classifier as a graph: every rank is a worker, the variables are
// spread over all ranks, and an executor runs each rank's part. The same options and losses.
//   mpirun -n 4 image_graph
//   mpirun -n 4 image_graph --cut         each worker's second half runs on the next rank
//   mpirun -n 4 image_graph --report      also prints how each tensor moves, and what it cost
//   mpirun -n 4 image_graph --checkpoint FOLDER     goes on from there, as if it had never ended
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
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
#include "weft/variables.hpp"
#include "weft/weft.hpp"

namespace {

using images::Images;
using images::Options;
namespace flow = weft::dataflow;

struct GraphRun {
  int threads = 0;
  bool cut = false;
  bool reports = false;
  weft::pslib::CheckpointOptions checkpoint{};
};

flow::Graph graph_of(const weft::World& world, const Options& options, const Images& all,
                     bool cut) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const flow::Graph model =
      images::make_graph(all, {.batch = options.batch, .learning_rate = options.learning_rate});
  flow::Replicas replicas = flow::replicate(model, {.workers = ranks, .servers = ranks});
  if (!cut) return replicas.graph;
  // Model parallelism: images and loss stay with the worker, what lies between moves.
  const flow::Graph halves = images::make_graph(all, {.batch = options.batch, .cut = true});
  for (const int worker : ranks)
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const flow::Node& node = halves.nodes()[i];
      const flow::NodeId copy = replicas.workers[static_cast<std::size_t>(worker)][i];
      if (copy >= 0 && node.placement.rank == 1 && node.definition->name != "weft.Fetch")
        replicas.graph.place(copy, {.rank = (worker + 1) % world.size()});
    }
  return replicas.graph;
}

class Job {
 public:
  Job(weft::World& world, const Options& options, const GraphRun& how, const Images& all)
      : world_(world),
        options_(options),
        how_(how),
        all_(all),
        executor_(world, graph_of(world, options, all, how.cut), images::make_kernels(),
                  {.threads = how.threads}),
        x_(executor_.feed(own("x"))),
        labels_(executor_.feed(own("labels"))),
        draws_(all, options.seed, world.rank()),
        progress_(options, world.rank() == 0) {}

  int run() {
    if (how_.reports && world_.rank() == 0) fmt::print("{}\n", executor_.plan().text());
    initialize();
    restore();
    while (executor_.step() < static_cast<std::uint64_t>(progress_.steps())) {
      const double loss = train_step();
      saved_->step_ended().or_throw();
      progress_.take(static_cast<int>(executor_.step()), loss);
    }
    if (how_.reports && world_.rank() == 0) fmt::print("{}\n", executor_.report().text());
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

  /// A step's result follows from the variables and the step's number.
  void restore() {
    saved_.emplace(world_, executor_, how_.checkpoint, "image_graph");
    if (saved_->restored() > 0 && world_.rank() == 0)
      fmt::print("goes on after step {}\n", saved_->restored());
    for (std::uint64_t i = 0; i < saved_->restored() * labels_.as<std::int64_t>().size(); ++i)
      static_cast<void>(draws_.next());
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
  const GraphRun& how_;
  const Images& all_;
  flow::Executor executor_;
  std::optional<weft::pslib::VariableCheckpoints> saved_;
  weft::Tensor x_;
  weft::Tensor labels_;
  images::Draws draws_;
  images::Progress progress_;
};

int run(int argc, char** argv) {
  Options options;
  GraphRun how;
  CLI::App app(
      "Trains a small convolutional network as a dataflow graph over the ranks of the job.",
      "image_graph");
  add_options(app, options);
  app.add_option("--threads", how.threads, "threads that run nodes beside the main one")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_flag("--cut", how.cut,
               "run the layers from the second one on, of each worker, on the next rank");
  app.add_flag("--report", how.reports,
               "print how each tensor moves between ranks, and what it cost");
  auto* folder = app.add_option("--checkpoint", how.checkpoint.folder,
                                "folder of checkpoints, from whose newest the run goes on");
  app.add_option("--checkpoint-every", how.checkpoint.every, "steps between checkpoints [25]")
      ->needs(folder)
      ->check(CLI::Range(1, 1'000'000));
  if (!images::parse(app, argc, argv)) return images::kLearned;
  if (!how.checkpoint.folder.empty() && how.checkpoint.every == 0) how.checkpoint.every = 25;
  // Before joining: if files can't be used, every rank ends at once and none waits.
  const Images all = load(options);
  weft::World world = weft::World::join();
  return Job(world, options, how, all).run();
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
