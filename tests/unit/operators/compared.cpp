#include "tests/unit/operators/compared.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/dataflow/execute/tensor_memory.hpp"
#include "tests/threads/dataflow/reference_kernels.hpp"

namespace weft::dataflow {
namespace {

const Kernels& ours() {
  static const Kernels kernels = operators();
  return kernels;
}

const Kernels& references() {
  static const Kernels kernels = reference_kernels();
  return kernels;
}

bool has_value(const Node& node) {
  const std::string& name = node.definition->name;
  return name != "weft.Feed" && name != "weft.Fetch";
}

void expect_near(const Tensor& told, const Tensor& expected) {
  ASSERT_EQ(told.text(), expected.text());
  const reference::Array a = reference::array_of(told);
  const reference::Array b = reference::array_of(expected);
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 2e-4 * (1 + std::abs(b[i]))) << "element " << i;
}

void expect_equal_bytes(const Tensor& told, const Tensor& expected) {
  ASSERT_EQ(told.text(), expected.text());
  EXPECT_TRUE(told.bytes() == 0 || std::memcmp(told.data(), expected.data(), told.bytes()) == 0);
}

}  // namespace

Tensor random_tensor(const Shape& shape, std::mt19937_64& random) {
  const Tensor tensor = plain_tensor(DType::f32, shape);
  for (float& x : tensor.as<float>()) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return tensor;
}

std::vector<Tensor> outputs_of(const Kernel& kernel, const Node& node, std::vector<Tensor> inputs,
                               int in_place, std::uint64_t step) {
  const Tensor reused = in_place >= 0 ? copy_of(inputs[std::size_t(in_place)]) : Tensor();
  if (in_place >= 0) inputs[std::size_t(in_place)] = reused;
  const auto allocate = [&](std::size_t i, DType dtype, const Shape& shape) {
    if (i == 0 && in_place >= 0) return reused;
    const Tensor tensor = plain_tensor(dtype, shape);
    // Numbers that are left there are seen.
    if (tensor.bytes() > 0) std::memset(tensor.data(), 0xff, tensor.bytes());
    return tensor;
  };
  KernelCall call(node, inputs, allocate, {}, step);
  kernel(call);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    EXPECT_TRUE(call.results()[i]) << "no output " << i << " of " << node.definition->name;
    outputs.push_back(call.output(i));
  }
  return outputs;
}

void Compared::compare(const Node& node, const std::vector<Tensor>& inputs,
                       const std::vector<Tensor>& expected) const {
  const Kernel* const kernel = ours().find(node.definition->name);
  ASSERT_NE(kernel, nullptr) << node.definition->name;
  const std::vector<Tensor> told = outputs_of(*kernel, node, inputs);
  for (std::size_t i = 0; i < told.size(); ++i) expect_near(told[i], expected[i]);
  const std::vector<Tensor> again = outputs_of(*kernel, node, inputs);
  for (std::size_t i = 0; i < told.size(); ++i) expect_equal_bytes(again[i], told[i]);
  for (const Reuse& reuse : node.definition->reuses)
    if (reuse.kind == Reuse::Kind::may && inputs[reuse.input].shape() == told[0].shape())
      expect_equal_bytes(outputs_of(*kernel, node, inputs, int(reuse.input))[0], told[0]);
}

void Compared::run() {
  for (const NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    if (!has_value(node)) continue;
    SCOPED_TRACE(node.definition->name + " " + node.attributes.text());
    std::vector<Tensor> inputs;
    for (const TensorId input : node.inputs)
      inputs.push_back(input.none() ? Tensor() : values_.at(input));
    const bool is_alias =
        std::any_of(node.definition->reuses.begin(), node.definition->reuses.end(),
                    [](const Reuse& reuse) { return reuse.kind == Reuse::Kind::alias; });
    const bool is_random = node.definition->name == "Dropout";
    const Kernel& kernel = *(is_random ? ours() : references()).find(node.definition->name);
    const std::vector<Tensor> outputs = outputs_of(kernel, node, inputs);
    if (!is_alias && !is_random) compare(node, inputs, outputs);
    if (testing::Test::HasFatalFailure()) return;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      values_[{id, static_cast<std::int32_t>(i)}] = outputs[i];
  }
}

void compare_case(const reference::Case& one, std::uint64_t seed) {
  std::string shapes;
  for (const auto& operand : one.inputs)
    shapes += operand.none ? " none" : " " + Shape(operand.sizes).text();
  SCOPED_TRACE(std::string(one.definition) + " " + one.attributes.text() + shapes + ", seed " +
               std::to_string(seed));
  std::mt19937_64 random(seed);
  Graph graph;
  std::vector<TensorId> inputs;
  std::vector<TensorId> differentiable;
  Compared compared(graph);
  const std::string name = one.definition;
  for (const auto& operand : one.inputs) {
    inputs.emplace_back();
    if (operand.none) continue;
    const bool is_index = operand.below > 0 && name != "BatchNormalization";
    const Shape shape(operand.sizes);
    const TensorId feed =
        graph.feed("x" + std::to_string(inputs.size()), is_index ? DType::i64 : DType::f32, shape);
    Tensor value = random_tensor(shape, random);
    if (operand.below > 0)
      for (float& x : value.as<float>()) x = std::abs(x) + 0.5F;  // variances
    if (is_index) {
      value = plain_tensor(DType::i64, shape);
      for (std::int64_t& x : value.as<std::int64_t>())
        x = std::int64_t(random() % std::uint64_t(operand.below));
    }
    inputs.back() = feed;
    if (operand.below == 0) differentiable.push_back(feed);
    compared.give(feed, value);
  }
  const TensorId first = graph.add(name, inputs, one.attributes, "op");
  if (graph.node(first.node).definition->gradient) {
    std::vector<TensorId> terms;
    for (std::int32_t i = 0; i < std::int32_t(graph.node(first.node).outputs.size()); ++i) {
      const TensorId output{first.node, i};
      if (!reference::is_differentiated(one, std::size_t(i))) continue;
      const Shape shape = graph.type(output).shape.shape();
      const TensorId weights = graph.feed("w" + std::to_string(i), DType::f32, shape);
      compared.give(weights, random_tensor(shape, random));
      terms.push_back(
          graph.add("ReduceSum", {graph.add("Mul", {output, weights})}, {{"keepdims", 0}}));
    }
    gradients(graph, graph.add("Sum", terms), differentiable);
  }
  compared.run();
}

}  // namespace weft::dataflow
