// Graphs of the tests of variables, and their kernels.
#pragma once

#include <string>
#include <vector>

#include "tests/threads/dataflow/models.hpp"
#include "weft/variables.hpp"

namespace weft::pslib {

using dataflow::Executor;
using dataflow::Graph;
using dataflow::Kernels;
using dataflow::Node;
using dataflow::TensorId;

/// A step's own numbers, as Dropout has them.
inline dataflow::Definition noise() {
  return {.name = "test.Noise",
          .inputs = {{"x"}},
          .outputs = {{"y"}},
          .infer = [](const dataflow::Inference& in) { return std::vector{in.input(0)}; },
          .gradient =
              [](dataflow::GradientBuilder& builder) { return std::vector{builder.gradient(0)}; }};
}

/// A layer with noise, and a loss; with "w" and "bias" of f32. Not placed.
struct Layer {
  Graph graph;
  std::vector<TensorId> variables;
  TensorId loss;

  Layer() : graph(definitions()) {
    const TensorId x = graph.feed("x", DType::f32, {4, 6});
    variables = {graph.variable("w", DType::f32, {6, 5}), graph.variable("bias", DType::f32, {5})};
    TensorId y = graph.add("Add", {graph.add("MatMul", {x, variables[0]}), variables[1]});
    y = graph.add("Tanh", {graph.add("test.Noise", {y})});
    loss = graph.add("ReduceMean", {graph.add("Mul", {y, y})}, {{"keepdims", 0}}, "mean loss");
    graph.fetch(loss, "loss");
  }

  static dataflow::Definitions definitions() {
    dataflow::Definitions all = with_updates();
    all.add(noise());
    return all;
  }
};

/// The reference kernels, and noise that follows from the step's number.
inline Kernels kernels() {
  Kernels all = dataflow::reference_kernels();
  all.add("test.Noise", [](dataflow::KernelCall& call) {
    const auto from = call.input(0).as<float>();
    const auto to = call.output(0).as<float>();
    for (std::size_t i = 0; i < from.size(); ++i)
      to[i] = from[i] + 0.01F * float((call.step() * 7 + i) % 11);
  });
  return with_updates(std::move(all));
}

/// Gives each variable of this rank that is no state of a rule values that follow from its name.
inline void start(Executor& executor, int rank) {
  for (const Node& node : executor.plan().parts[std::size_t(rank)].graph.nodes())
    if (node.definition->name == "weft.Variable" && node.name.find('/') == node.name.npos)
      dataflow::fill_at_random(executor.variable(node.name),
                               node.name.size() + std::size_t(node.name[0]));
}

/// This rank's feeds in a step. All copies of a model get other values, wherever they are.
inline dataflow::Tensors feeds(Executor& executor, int rank, std::uint64_t step) {
  dataflow::Tensors feeds;
  for (const Node& node : executor.plan().parts[std::size_t(rank)].graph.nodes()) {
    if (node.definition->name != "weft.Feed") continue;
    feeds[node.name] = executor.feed(node.name);
    dataflow::fill_at_random(feeds[node.name], std::uint64_t(node.name.back()) * 1000 + step);
  }
  return feeds;
}

inline std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), tensor.bytes()};
}

}  // namespace weft::pslib
