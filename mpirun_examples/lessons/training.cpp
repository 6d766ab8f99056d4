#include "lessons/training.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lessons {
namespace flow = weft::dataflow;
namespace {

/// The input by which a node knows a table of embeddings, or -1.
int table_input(const flow::Node& node) {
  if (node.definition->name == "Gather") return 0;
  if (node.definition->name == "weft.GatherGrad") return 2;
  return -1;
}

void place_lookups(const flow::Graph& model, flow::Replicas& replicas) {
  for (std::size_t i = 0; i < model.size(); ++i) {
    const flow::Node& node = model.nodes()[i];
    const int input = table_input(node);
    if (input < 0) continue;
    const flow::NodeId table = node.inputs[static_cast<std::size_t>(input)].node;
    const flow::NodeId server = replicas.servers[static_cast<std::size_t>(table)];
    if (server < 0) continue;
    const int rank = replicas.graph.node(server).placement.rank;
    for (const auto& worker : replicas.workers) replicas.graph.place(worker[i], {.rank = rank});
  }
}

}  // namespace

flow::Graph graph_of(const Lesson& lesson, int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const flow::Graph model = lesson.model();
  flow::Replicas replicas = flow::replicate(model, {.workers = all, .servers = all});
  place_lookups(model, replicas);
  flow::Graph& graph = replicas.graph;
  // Added in rank order, so that two runs of the same ranks have the same bits.
  std::vector<flow::TensorId> losses;
  for (const auto& worker : replicas.workers)
    losses.push_back({worker[static_cast<std::size_t>(model.find("mean loss"))], 0});
  graph.place_next({.rank = 0});
  const flow::TensorId sum = graph.add("Sum", losses, {}, "sum of losses");
  graph.fetch(graph.add("weft.Scale", {sum}, {{"factor", 1.0 / ranks}}, "mean of losses"),
              "job's loss");
  return std::move(graph);
}

Training::Training(flow::Executor& executor, Lesson& lesson, int rank)
    : executor_(executor), lesson_(lesson), rank_(rank) {
  const auto values = lesson.first_values();
  for (const flow::Node& node :
       executor.plan().parts[static_cast<std::size_t>(rank)].graph.nodes()) {
    if (node.definition->name == "weft.Feed" && node.outputs[0].shape.known())
      kept_[node.name] = executor.feed(node.name);
    const auto found = values.find(node.name);
    if (node.definition->name == "weft.Variable" && found != values.end())
      std::ranges::copy(found->second, executor.variable(node.name).as<float>().begin());
  }
}

std::string Training::own(const std::string& name) const {
  return name + "@" + std::to_string(rank_);
}

double Training::step() {
  flow::Tensors feeds;
  for (auto& [name, tensor] :
       lesson_.feeds(rank_, executor_.step(), [&](const std::string&feed, const weft::Shape&shape) {
         const auto kept = kept_.find(own(feed));
         return kept != kept_.end() ? kept->second : executor_.feed(own(feed), shape);
       }))
    feeds[own(name)] = tensor;
  const flow::Tensors fetched = executor_.run(feeds).value();
  return fetched.at(rank_ == 0 ? "job's loss" : own("loss")).as<float>()[0];
}

}  // namespace lessons
