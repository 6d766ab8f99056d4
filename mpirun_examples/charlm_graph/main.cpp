// Trains the LSTM of train_charlm as a graph, by the kernels of weft::operators: every rank is a
// worker, the variables are spread over all ranks, rank 0 gets the mean of all losses. The same
// windows, first values and losses as train_charlm.
//   mpirun -n 4 charlm_graph --text LICENSE
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "batches.hpp"
#include "model.hpp"
#include "options.hpp"
#include "text.hpp"
#include "weft/executor.hpp"
#include "weft/operators.hpp"
#include "weft/variables.hpp"
#include "weft/weft.hpp"

namespace {

namespace flow = weft::dataflow;
using charlm::GraphJobOptions;
using charlm::Text;

// A default run has learned if its last loss is below this share of the unigram entropy.
constexpr double kLearnedShare = 0.8;
constexpr int kShown = 10;

flow::Graph graph_of(const charlm::GraphOptions& options, int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const flow::Graph model = charlm::make_graph(options);
  flow::Replicas replicas = flow::replicate(model, {.workers = all, .servers = all});
  flow::Graph& graph = replicas.graph;
  // Added in rank order, so that two runs of the same ranks print the same digits.
  std::vector<flow::TensorId> losses;
  for (const auto& worker : replicas.workers)
    losses.push_back({worker[static_cast<std::size_t>(model.find("mean loss"))], 0});
  graph.place_next({.rank = 0});
  const flow::TensorId sum = graph.add("Sum", losses, {}, "sum of losses");
  graph.fetch(graph.add("weft.Scale", {sum}, {{"factor", 1.0 / ranks}}, "mean of losses"),
              "job's loss");
  return std::move(graph);
}

class Job {
 public:
  Job(weft::World& world, const GraphJobOptions& options, const Text& text)
      : world_(world),
        options_(options),
        sizes_{static_cast<int>(text.vocabulary.size()), options.embed, options.hidden},
        entropy_(text.unigram_entropy()),
        batches_(text.tokens, options.length, options.batch_for(world.size()), world.rank(),
                 world.size(), options.seed),
        executor_(world,
                  graph_of({.sizes = sizes_,
                            .length = options.length,
                            .sequences = batches_.sequences(),
                            .learning_rate = options.learning_rate},
                           world.size()),
                  weft::pslib::with_updates(flow::operators()), {.threads = options.threads}) {
    for (const char* name : {"inputs", "targets"}) feeds_[own(name)] = executor_.feed(own(name));
  }

  int run() {
    const bool is_first = world_.rank() == 0;
    if (is_first && options_.reports) fmt::print("{}\n", executor_.plan().text());
    std::ofstream losses;
    if (is_first && !options_.losses.empty()) losses.open(options_.losses);
    if (is_first && !options_.losses.empty() && !losses)
      throw charlm::UsageError(
          fmt::format("{}: cannot be written; choose another path", options_.losses));
    initialize();
    const int steps = options_.steps.value_or(GraphJobOptions::kDefaultSteps);
    double loss = 0.0;
    for (int step = 1; step <= steps; ++step) {
      loss = train_step(step);
      if (losses.is_open()) losses << fmt::format("{} {:a}\n", step, loss);
      if (!is_first || (step % kShown != 0 && step != steps)) continue;
      fmt::print("step {:>5}/{}  loss {:.4f}\n", step, steps, loss);
      std::fflush(stdout);
    }
    if (is_first && options_.reports) fmt::print("{}\n", executor_.report().text());
    const bool learned = !is_first || options_.steps || loss < kLearnedShare * entropy_;
    if (is_first)
      fmt::print("loss {:.4f} nats per character, {:.0f} % of the unigram entropy {:.4f}{}\n", loss,
                 100 * loss / entropy_, entropy_, learned ? "" : ": not learned");
    world_.leave().or_throw();
    return learned ? charlm::kLearned : charlm::kDidNotLearn;
  }

 private:
  /// The name of this worker's copy of a feed.
  std::string own(const char* name) const { return fmt::format("{}@{}", name, world_.rank()); }

  /// Every rank computes all first values, and writes those of its own variables.
  void initialize() {
    const auto values = charlm::first_values(sizes_, options_.seed);
    const flow::Graph& part = executor_.plan().parts[static_cast<std::size_t>(world_.rank())].graph;
    for (const flow::Node& node : part.nodes())
      if (const auto found = values.find(node.name);
          found != values.end() && node.definition->name == "weft.Variable")
        std::ranges::copy(found->second, executor_.variable(node.name).as<float>().begin());
  }

  /// Returns the job's loss on rank 0, this rank's elsewhere.
  double train_step(int step) {
    batches_.fill(static_cast<std::uint64_t>(step), part_);
    std::ranges::copy(part_.inputs, feeds_[own("inputs")].as<std::int32_t>().begin());
    std::ranges::copy(part_.targets, feeds_[own("targets")].as<std::int32_t>().begin());
    const flow::Tensors fetched = executor_.run(feeds_).value();
    const std::string name = world_.rank() == 0 ? "job's loss" : own("loss");
    return fetched.at(name).as<float>()[0];
  }

  weft::World& world_;
  const GraphJobOptions& options_;
  const charlm::LstmSizes sizes_;
  const double entropy_;
  charlm::Batches batches_;
  charlm::Batch part_;
  flow::Executor executor_;
  flow::Tensors feeds_;
};

int fail(int exit_code, const std::string& what) {
  fmt::print(stderr, "charlm_graph: {}\n", what);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto options = GraphJobOptions::parse(argc, argv);
  if (!options) return charlm::kLearned;
  // Before joining: if the text can't be used, every rank ends at once and none waits.
  const Text text = charlm::read_text(options->text, static_cast<std::size_t>(options->length) + 1);
  weft::World world = weft::World::join();
  return Job(world, *options, text).run();
} catch (const charlm::UsageError& error) {
  return fail(charlm::kBadInput, error.what());
} catch (const charlm::TextError& error) {
  return fail(charlm::kBadInput, error.what());
} catch (const std::exception& error) {
  return fail(charlm::kJobFailed, error.what());
}
