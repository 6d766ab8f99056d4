// Gradients as nodes against differences, for every definition that has a gradient.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/dataflow/cases.hpp"
#include "tests/unit/dataflow/interpreter.hpp"
#include "weft/error.hpp"

namespace weft::dataflow {
namespace {

using reference::Array;
using reference::Case;
using reference::differentiable_cases;
using reference::Operand;

/// One operator, and the sum of its outputs by random weights as a loss.
class Differentiated {
 public:
  Differentiated(const Case& one, std::uint64_t seed) : random_(seed) {
    graph_.place_next({0});
    std::vector<TensorId> inputs;
    for (std::size_t i = 0; i < one.inputs.size(); ++i) inputs.push_back(operand(one, i));
    const TensorId first = graph_.add(one.definition, inputs, one.attributes, "op");
    std::vector<TensorId> terms;
    const std::size_t outputs = graph_.node(first.node).outputs.size();
    for (std::size_t i = 0; i < outputs; ++i) {
      const TensorId output{first.node, static_cast<std::int32_t>(i)};
      if (reference::is_differentiated(one, i)) terms.push_back(weighed(output));
    }
    const TensorId loss = graph_.add("Sum", terms);
    graph_.fetch(loss, "loss");
    const auto found = gradients(graph_, loss, variables_);
    for (std::size_t i = 0; i < found.size(); ++i)
      graph_.fetch(found[i], "d" + graph_.node(variables_[i].node).name);
  }

  void compare() {
    const auto fetched = run();
    for (const TensorId variable : variables_) {
      const std::string name = graph_.node(variable.node).name;
      Array& value = values_.at(name);
      const auto& told = fetched.at("d" + name + "#0");
      ASSERT_EQ(told.size(), value.size()) << name;
      for (std::size_t i = 0; i < value.size(); ++i) {
        const double kept = value[i];
        value[i] = kept + kStep;
        const double above = run().at("loss#0")[0];
        value[i] = kept - kStep;
        const double below = run().at("loss#0")[0];
        value[i] = kept;
        ASSERT_NEAR(told[i], (above - below) / (2 * kStep), 1e-6) << name << " element " << i;
      }
    }
  }

 private:
  static constexpr double kStep = 1e-5;

  TensorId operand(const Case& one, std::size_t i) {
    const Operand& operand = one.inputs[i];
    if (operand.none) return {};
    const std::string name = "v" + std::to_string(i);
    const bool is_index = operand.below > 0 && std::string(one.definition) != "BatchNormalization";
    Array value(operand.sizes);
    for (double& x : *value.data)
      x = operand.below > 0 ? double(random_() % std::uint64_t(operand.below)) + (is_index ? 0 : 1)
                            : std::uniform_real_distribution<>(-1, 1)(random_);
    values_[name] = value;
    const TensorId tensor =
        graph_.variable(name, is_index ? DType::i64 : DType::f64, Shape(operand.sizes));
    if (operand.below == 0) variables_.push_back(tensor);
    return tensor;
  }

  TensorId weighed(TensorId output) {
    const std::string name = "w" + std::to_string(output.output);
    Array value(
        Sizes(graph_.type(output).shape.sizes().begin(), graph_.type(output).shape.sizes().end()));
    for (double& x : *value.data) x = std::uniform_real_distribution<>(0.5, 1.5)(random_);
    values_[name] = value;
    const TensorId weights = graph_.variable(name, DType::f64, graph_.type(output).shape.shape());
    return graph_.add("ReduceSum", {graph_.add("Mul", {output, weights})}, {{"keepdims", 0}});
  }

  reference::Fetched run() {
    reference::Run run;
    run.variable = [&](const Node& node) {
      const Array& value = values_.at(node.name);
      Array copy(value.sizes);
      *copy.data = *value.data;
      return copy;
    };
    return reference::interpret(plan_ ? *plan_ : *(plan_ = partition(graph_, {})), run);
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::optional<Plan> plan_;
  std::vector<TensorId> variables_;
  std::map<std::string, Array> values_;
};

TEST(Gradients, AreTheDifferencesOfTheLoss) {
  std::uint64_t seed = 1;
  for (const Case& one : differentiable_cases()) {
    SCOPED_TRACE(std::string(one.definition) + " " + one.attributes.text() + ", seed " +
                 std::to_string(seed));
    Differentiated(one, seed++).compare();
    if (HasFatalFailure()) return;
  }
}

TEST(Gradients, AreComparedForEveryDefinitionThatHasOne) {
  std::set<std::string> compared;
  for (const Case& one : differentiable_cases()) compared.insert(one.definition);
  for (const std::string& name : Definitions::standard().names())
    EXPECT_EQ(compared.contains(name), bool(Definitions::standard().find(name)->gradient)) << name;
}

TEST(Gradients, OfSeveralReadersAreSummed) {
  Graph graph;
  const TensorId x = graph.variable("x", DType::f64, {});
  const TensorId square = graph.add("Mul", {x, x});
  const TensorId loss = graph.add("Add", {square, graph.add("Mul", {square, x})});
  const auto found = gradients(graph, loss, std::vector{x});
  graph.fetch(found[0], "dx");
  for (NodeId i = 0; i < NodeId(graph.size()); ++i) graph.place(i, {0});
  reference::Run run;
  run.variable = [](const Node&) { return Array({}, 3.0); };
  EXPECT_EQ(reference::interpret(partition(graph, {}), run).at("dx#0")[0], 2 * 3 + 3 * 3 * 3);
}

TEST(Gradients, ArePlacedLikeTheirNodes) {
  Graph graph;
  graph.place_next({3});
  const TensorId x = graph.variable("x", DType::f32, {2});
  graph.place_next({1, Memory::gpu});
  const TensorId loss = graph.add("ReduceSum", {graph.add("Relu", {x})}, {{"keepdims", 0}});
  graph.place_next({5});
  const std::size_t before = graph.size();
  gradients(graph, loss, std::vector{x});
  for (std::size_t i = before; i < graph.size(); ++i)
    EXPECT_EQ(graph.nodes()[i].placement, (Placement{1, Memory::gpu})) << graph.nodes()[i].name;
}

TEST(Gradients, AddNoNodesForInputsThatNeedNone) {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f32, {2, 3});
  const TensorId w = graph.variable("w", DType::f32, {3, 4});
  const TensorId loss = graph.add("ReduceSum", {graph.add("MatMul", {x, w})}, {{"keepdims", 0}});
  const TensorId found = gradients(graph, loss, std::vector{w})[0];
  std::set<TensorId> read{found};
  for (const Node& node : graph.nodes()) read.insert(node.inputs.begin(), node.inputs.end());
  for (NodeId i = loss.node + 1; i < NodeId(graph.size()); ++i)
    EXPECT_TRUE(read.contains({i, 0})) << graph.node(i).name;
}

std::string refusal(Graph& graph, TensorId loss, TensorId variable) {
  try {
    gradients(graph, loss, std::vector{variable});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_argument);
    return error.detail().message;
  }
  return "nothing";
}

TEST(Gradients, OfWhatHasNoneAreRefusedByName) {
  Graph graph;
  const TensorId x = graph.variable("x", DType::f32, {2});
  const TensorId other = graph.variable("other", DType::f32, {});
  const TensorId zeros = graph.add("weft.ZerosLike", {x}, {}, "zeros");
  const TensorId loss = graph.add("ReduceSum", {zeros}, {{"keepdims", 0}}, "loss");
  EXPECT_NE(refusal(graph, loss, x).find("'zeros' (weft.ZerosLike) has no gradient"),
            std::string::npos);
  EXPECT_NE(refusal(graph, loss, other).find("'loss' (ReduceSum) doesn't depend on node 'other'"),
            std::string::npos);
  EXPECT_NE(refusal(graph, zeros, x).find("must be one floating-point number"), std::string::npos);
}

}  // namespace
}  // namespace weft::dataflow
