// Graphs of the executor's tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/dataflow/reference_kernels.hpp"
#include "weft/executor.hpp"

namespace weft::dataflow {

/// A layer and a loss, trained by gradient descent; not placed. `rows` may be open.
inline Graph training_model(std::int64_t rows = 4) {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f32, PartialShape{rows, 6});
  const TensorId w = graph.variable("w", DType::f32, {6, 5});
  const TensorId bias = graph.variable("bias", DType::f32, {5});
  const TensorId y = graph.add("Tanh", {graph.add("Add", {graph.add("MatMul", {x, w}), bias})});
  const TensorId loss = graph.add("ReduceMean", {graph.add("Mul", {y, y})}, {{"keepdims", 0}}, "l");
  graph.fetch(loss, "loss");
  const std::vector<TensorId> variables{w, bias};
  const auto found = gradients(graph, loss, variables);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const std::string& name = graph.node(variables[i].node).name;
    const TensorId step = graph.add("weft.Scale", {found[i]}, {{"factor", -0.1}});
    graph.assign(variables[i], graph.add("Add", {variables[i], step}), "update_" + name);
  }
  return graph;
}

/// An assignment is placed with its variable.
inline void place_at_random(Graph& graph, int ranks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (NodeId i = 0; i < NodeId(graph.size()); ++i)
    graph.place(i, {int(random() % std::uint64_t(ranks))});
  for (NodeId i = 0; i < NodeId(graph.size()); ++i)
    if (graph.node(i).definition->name == "weft.Assign")
      graph.place(i, graph.node(graph.node(i).inputs[0].node).placement);
}

/// Fills this rank's variables.
inline void start_variables(Executor& executor, int rank) {
  for (const Node& node : executor.plan().parts[std::size_t(rank)].graph.nodes())
    if (node.definition->name == "weft.Variable")
      fill_at_random(executor.variable(node.name), node.name.size() + std::size_t(node.name[0]));
}

/// This rank's feeds in a step, in the executor's memory. "x@1" has the values of "x".
inline Tensors feeds_of(Executor& executor, int rank, int step) {
  Tensors feeds;
  for (const Node& node : executor.plan().parts[std::size_t(rank)].graph.nodes()) {
    if (node.definition->name != "weft.Feed") continue;
    feeds[node.name] = executor.feed(node.name);
    fill_at_random(feeds[node.name], std::uint64_t(node.name[0]) * 1000 + std::uint64_t(step));
  }
  return feeds;
}

/// x on rank 0, read on rank 1: one edge, static or dynamic.
inline Graph one_edge(bool is_dynamic) {
  Graph graph;
  graph.place_next({0});
  const TensorId x =
      graph.feed("x", DType::f32, PartialShape{is_dynamic ? kAnySize : std::int64_t{1000}, 3});
  const TensorId y = graph.add("Relu", {x}, {}, "y");
  graph.place_next({1});
  graph.fetch(graph.add("weft.Scale", {y}, {{"factor", 2.0}}, "z"), "out");
  return graph;
}

}  // namespace weft::dataflow
