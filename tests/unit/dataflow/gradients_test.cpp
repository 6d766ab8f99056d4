// Gradients as nodes against differences, for every definition that has a gradient.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/dataflow/interpreter.hpp"
#include "weft/error.hpp"

namespace weft::dataflow {
namespace {

using reference::Array;

struct Operand {
  Sizes sizes;
  int below = 0;  ///< > 0: indices below that; 0: a variable
  bool none = false;
};
const Operand kNone{{}, 0, true};

struct Case {
  const char* definition;
  std::vector<Operand> inputs;
  Attributes attributes{};
};

std::vector<Case> elementwise_cases() {
  return {{"Add", {{{2, 3}}, {{3}}}},
          {"Add", {{{2, 1}}, {{1, 3}}}},
          {"Mul", {{{2, 3}}, {{2, 3}}}},
          {"Mul", {{{2, 3}}, {{}}}},
          {"Sum", {{{2, 3}}, {{3}}, {{2, 1}}}},
          {"weft.Scale", {{{4}}}, {{"factor", -1.5}}},
          {"Relu", {{{3, 4}}}},
          {"Sigmoid", {{{3, 4}}}},
          {"Tanh", {{{3, 4}}}},
          {"Dropout", {{{5, 4}}}, {{"ratio", 0.25}, {"seed", 7}}}};
}

std::vector<Case> matrix_cases() {
  std::vector<Case> cases{{"MatMul", {{{2, 3}}, {{3, 4}}}},
                          {"MatMul", {{{2, 2, 3}}, {{3, 2}}}},
                          {"MatMul", {{{2, 1, 2, 3}}, {{3, 3, 2}}}}};
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b)
      cases.push_back(
          {"Gemm",
           {{a != 0 ? Sizes{3, 2} : Sizes{2, 3}}, {b != 0 ? Sizes{4, 3} : Sizes{3, 4}}, {{4}}},
           {{"alpha", 0.5}, {"beta", 2.0}, {"transA", a}, {"transB", b}}});
  cases.push_back({"Gemm", {{{2, 3}}, {{3, 4}}}});
  return cases;
}

std::vector<Case> window_cases() {
  return {{"Conv", {{{2, 2, 5, 4}}, {{3, 2, 2, 3}}, {{3}}}},
          {"Conv",
           {{{1, 2, 5, 7}}, {{2, 2, 1, 7}}},  // 1x7
           {{"pads", Sizes{0, 3, 0, 3}}, {"strides", Sizes{2, 1}}}},
          {"Conv",
           {{{1, 4, 5, 5}}, {{2, 2, 2, 2}}, {{2}}},
           {{"group", 2}, {"dilations", Sizes{2, 1}}, {"pads", Sizes{1, 0, 0, 2}}}},
          {"MaxPool", {{{1, 2, 5, 5}}}, {{"kernel_shape", Sizes{2, 3}}, {"strides", Sizes{2, 1}}}},
          {"MaxPool",
           {{{1, 1, 5, 5}}},
           {{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}, {"ceil_mode", 1}}},
          {"AveragePool",
           {{{1, 2, 4, 4}}},
           {{"kernel_shape", Sizes{3, 3}}, {"pads", Sizes{1, 1, 1, 1}}}},
          {"AveragePool",
           {{{1, 2, 4, 4}}},
           {{"kernel_shape", Sizes{3, 3}}, {"pads", Sizes{1, 1, 1, 1}}, {"count_include_pad", 1}}},
          {"BatchNormalization",
           {{{3, 2, 2}}, {{2}}, {{2}}, {{2}, 3}, {{2}, 3}},
           {{"training_mode", 1}}},
          {"BatchNormalization", {{{3, 2, 2}}, {{2}}, {{2}}, {{2}, 3}, {{2}, 3}}}};
}

std::vector<Case> recurrent_cases() {
  std::vector<Case> cases;
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    const std::int64_t d = std::string(direction) == "bidirectional" ? 2 : 1;
    const Attributes attributes{{"hidden_size", 2}, {"direction", std::string(direction)}};
    cases.push_back(
        {"LSTM",
         {{{3, 2, 2}}, {{d, 8, 2}}, {{d, 8, 2}}, {{d, 16}}, kNone, {{d, 2, 2}}, {{d, 2, 2}}},
         attributes});
    cases.push_back({"GRU",
                     {{{3, 2, 2}}, {{d, 6, 2}}, {{d, 6, 2}}, {{d, 12}}, kNone, {{d, 2, 2}}},
                     attributes});
  }
  cases.push_back({"LSTM", {{{2, 1, 2}}, {{1, 8, 2}}, {{1, 8, 2}}}, {{"hidden_size", 2}}});
  cases.push_back({"GRU",
                   {{{2, 1, 2}}, {{1, 6, 2}}, {{1, 6, 2}}, {{1, 12}}},
                   {{"hidden_size", 2}, {"linear_before_reset", 1}}});
  return cases;
}

std::vector<Case> other_cases() {
  return {
      {"Concat", {{{2, 3}}, {{2, 1}}, {{2, 2}}}, {{"axis", 1}}},
      {"Concat", {{{2, 3}}, {{1, 3}}}, {{"axis", -2}}},
      {"Split", {{{2, 5}}}, {{"axis", 1}, {"split", Sizes{2, 0, 3}}}},
      {"Split", {{{4, 2}}}, {{"num_outputs", 2}}},
      {"Reshape", {{{2, 6}}}, {{"shape", Sizes{0, -1, 2}}}},
      {"Transpose", {{{2, 3, 4}}}, {{"perm", Sizes{2, 0, 1}}}},
      {"Transpose", {{{2, 3}}}},
      {"ReduceSum", {{{2, 3, 2}}}, {{"axes", Sizes{1}}, {"keepdims", 0}}},
      {"ReduceMean", {{{2, 3, 2}}}, {{"axes", Sizes{0, -1}}}},
      {"ReduceMax", {{{3, 4}}}, {{"axes", Sizes{1}}}},
      {"ReduceMax", {{{3, 4}}}},
      {"Gather", {{{4, 3}}, {{2, 3}, 4}}},
      {"Gather", {{{2, 4, 2}}, {{3}, 4}}, {{"axis", 1}}},
      {"SoftmaxCrossEntropyLoss", {{{4, 3}}, {{4}, 3}}},
      {"SoftmaxCrossEntropyLoss", {{{2, 3, 2}}, {{2, 2}, 3}}, {{"reduction", std::string("sum")}}},
      {"SoftmaxCrossEntropyLoss", {{{4, 3}}, {{4}, 3}}, {{"reduction", std::string("none")}}}};
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& some :
       {elementwise_cases(), matrix_cases(), window_cases(), recurrent_cases(), other_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

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
      if (is_differentiated(one, i)) terms.push_back(weighed(output));
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

  /// The running statistics and log_prob have no gradient, and the mask is not a number.
  static bool is_differentiated(const Case& one, std::size_t output) {
    const std::string name = one.definition;
    return output == 0 || name == "LSTM" || name == "GRU" || name == "Split";
  }

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
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(std::string(one.definition) + " " + one.attributes.text() + ", seed " +
                 std::to_string(seed));
    Differentiated(one, seed++).compare();
    if (HasFatalFailure()) return;
  }
}

TEST(Gradients, AreComparedForEveryDefinitionThatHasOne) {
  std::set<std::string> compared;
  for (const Case& one : all_cases()) compared.insert(one.definition);
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
