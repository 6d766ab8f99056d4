#include "lessons/layers.hpp"

#include <cmath>

#include "lessons/draws.hpp"

namespace lessons {
namespace {

using weft::DType;
using weft::dataflow::Graph;
using weft::dataflow::Node;
using weft::dataflow::Sizes;
using weft::dataflow::TensorId;

constexpr const char* kBias = "_bias";

}  // namespace

TensorId Layers::parameter(const std::string& name, const weft::Shape& shape) {
  parameters_.push_back(graph_.variable(name, DType::f32, shape));
  return parameters_.back();
}

TensorId Layers::embedded(const std::string& name, TensorId words, std::int64_t vocabulary,
                          std::int64_t width) {
  return graph_.add("Gather", {parameter(name, {vocabulary, width}), words});
}

Layers::States Layers::lstm(const std::string& name, TensorId x, std::int64_t width,
                            const States* first) {
  const TensorId w = parameter(name + "_W", {1, 4 * width, graph_.type(x).shape[2]});
  const TensorId r = parameter(name + "_R", {1, 4 * width, width});
  std::vector<TensorId> inputs{x, w, r, parameter(name + kBias, {1, 8 * width})};
  if (first != nullptr) inputs.insert(inputs.end(), {TensorId{}, first->h, first->c});
  const TensorId all = graph_.add("LSTM", inputs, {{"hidden_size", width}}, name);
  return {all, {all.node, 1}, {all.node, 2}};
}

TensorId Layers::gru(const std::string& name, TensorId x, std::int64_t width) {
  const TensorId w = parameter(name + "_W", {1, 3 * width, graph_.type(x).shape[2]});
  const TensorId r = parameter(name + "_R", {1, 3 * width, width});
  const TensorId bias = parameter(name + kBias, {1, 6 * width});
  const TensorId all = graph_.add("GRU", {x, w, r, bias}, {{"hidden_size", width}}, name);
  return graph_.add("Reshape", {{all.node, 1}}, {{"shape", Sizes{-1, width}}}, name + " state");
}

std::map<std::string, std::vector<float>> random_weights(const Graph& model, std::uint64_t seed) {
  std::map<std::string, std::vector<float>> all;
  Draws draws({seed, 1});
  for (const Node& node : model.nodes()) {
    // The state of a rule is called "<variable>/...".
    if (node.definition->name != "weft.Variable" || node.name.ends_with(kBias) ||
        node.name.find('/') != std::string::npos)
      continue;
    const weft::Shape shape = node.outputs[0].shape.shape();
    const double inputs = static_cast<double>(shape[shape.dims() - 1]);
    const double most = std::sqrt(3.0 / inputs);
    std::vector<float>& values = all[node.name];
    values.resize(static_cast<std::size_t>(shape.elements()));
    for (float& value : values) value = static_cast<float>(most * (2.0 * draws.unit() - 1.0));
  }
  return all;
}

}  // namespace lessons
