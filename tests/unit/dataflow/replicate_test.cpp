// Data-parallel replicas: variables on servers, gradients summed up there.
#include <gtest/gtest.h>

#include "tests/unit/dataflow/interpreter.hpp"
#include "tests/unit/dataflow/refused.hpp"

namespace weft::dataflow {
namespace {

using reference::Array;

/// A model with three variables of 1, 2 and 12 numbers, trained by gradient descent.
Graph model() {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f64, {2, 3});
  const TensorId scale = graph.variable("scale", DType::f64, {1});
  const TensorId bias = graph.variable("bias", DType::f64, {4});
  const TensorId w = graph.variable("w", DType::f64, {3, 4});
  const TensorId y = graph.add("Tanh", {graph.add("Add", {graph.add("MatMul", {x, w}), bias})});
  const TensorId loss =
      graph.add("ReduceMean", {graph.add("Mul", {y, scale})}, {{"keepdims", 0}}, "mean_loss");
  graph.fetch(loss, "loss");
  const std::vector<TensorId> variables{scale, bias, w};
  const auto found = gradients(graph, loss, variables);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const std::string& name = graph.node(variables[i].node).name;
    const TensorId step = graph.add("weft.Scale", {found[i]}, {{"factor", -0.1}});
    graph.assign(variables[i], graph.add("Add", {variables[i], step}), "update_" + name);
  }
  graph.fetch(w, "weights");
  return graph;
}

int rank_of(const Graph& graph, const std::string& name) {
  return graph.node(graph.find(name)).placement.rank;
}

TEST(Replicate, SpreadsVariablesRoundRobinOrByBytes) {
  const Replicas turns = replicate(model(), {.workers = {0, 1}, .servers = {0, 1}});
  EXPECT_EQ(rank_of(turns.graph, "scale"), 0);
  EXPECT_EQ(rank_of(turns.graph, "bias"), 1);
  EXPECT_EQ(rank_of(turns.graph, "w"), 0);
  EXPECT_EQ(rank_of(turns.graph, "update_bias"), 1);
  const Replicas bytes = replicate(
      model(), {.workers = {0, 1}, .servers = {0, 1}, .spread = ReplicaOptions::Spread::by_bytes});
  EXPECT_EQ(rank_of(bytes.graph, "w"), 0);
  EXPECT_EQ(rank_of(bytes.graph, "bias"), 1);
  EXPECT_EQ(rank_of(bytes.graph, "scale"), 1);
}

TEST(Replicate, GivesEachWorkerVariablesOfItsOwnWithoutServers) {
  const Graph model_graph = model();
  const Replicas replicas = replicate(model_graph, {.workers = {0, 2}});
  for (const int worker : {0, 2})
    for (const char* name : {"w", "update_w", "weights", "loss"})
      EXPECT_EQ(rank_of(replicas.graph, std::string(name) + "@" + std::to_string(worker)), worker);
  EXPECT_EQ(replicas.graph.size(), 2 * model_graph.size()) << "nothing is summed up";
  EXPECT_EQ(replicas.servers, std::vector<NodeId>(model_graph.size(), -1));
  EXPECT_TRUE(partition(replicas.graph, {.ranks = 3}).edges.empty());
}

TEST(Replicate, KeepsVariablesThatOneNodeAssignsTogether) {
  Definitions all = Definitions::standard();
  all.add({.name = "my.Momentum",
           .inputs = {{"variable"}, {"momentum"}, {"gradient"}},
           .outputs = {{"variable"}, {"momentum"}},
           .infer =
               [](const Inference& in) {
                 return std::vector{in.input(0), in.input(1)};
               },
           .reuses = {{0, 0, Reuse::Kind::must}, {1, 1, Reuse::Kind::must}}});
  Graph graph(all);
  const TensorId v = graph.variable("v", DType::f32, {2});
  const TensorId m = graph.variable("m", DType::f32, {2});
  const TensorId x = graph.feed("x", DType::f32, {2});
  graph.add("my.Momentum", {v, m, graph.add("Mul", {v, x}, {}, "g")}, {}, "update");
  const Replicas made = replicate(graph, {.workers = {0, 1}, .servers = {2, 3}});
  EXPECT_EQ(rank_of(made.graph, "v"), rank_of(made.graph, "m"));
  // The momentum stays where it is: only v and its gradient cross.
  const Plan plan = partition(made.graph, {.ranks = 4});
  EXPECT_EQ(plan.edges.size(), 4U) << plan.text();
}

/// Runs three steps in which every worker has other data.
reference::Fetched train(const Graph& graph, int ranks, std::uint64_t order) {
  reference::Run run;
  run.steps = 3;
  run.seed = order;
  run.variable = [](const Node& node) {
    Array array(node.attributes.sizes("shape"));
    for (std::size_t i = 0; i < array.size(); ++i) array[i] = 0.3 - 0.1 * double(i % 7);
    return array;
  };
  run.feed = [](const Node& node, int step) {
    Array array(node.attributes.sizes("shape"));
    for (std::size_t i = 0; i < array.size(); ++i)
      array[i] = std::sin(double(i + 1) * double(step + 1) + double(node.name.back()));
    return array;
  };
  return reference::interpret(partition(graph, {.ranks = ranks}), run);
}

TEST(Replicate, TrainsAlikeWhereverTheServersAre) {
  const auto one = train(replicate(model(), {.workers = {0, 1}, .servers = {0}}).graph, 2, 1);
  EXPECT_EQ(one.size(), 9U);  // a loss of each worker and the weights, in 3 steps
  EXPECT_TRUE(one.contains("loss@1#2") && one.contains("weights#2"));
  EXPECT_NE(one.at("weights#0"), one.at("weights#1"));
  for (const auto& servers : {std::vector{1}, std::vector{0, 1}, std::vector{2, 3, 1}})
    EXPECT_EQ(one, train(replicate(model(), {.workers = {0, 1}, .servers = servers}).graph, 4,
                         servers.size()));
}

TEST(Replicate, AveragesOrAddsTheGradients) {
  const auto value = [](bool mean) {
    Graph graph;
    const TensorId v = graph.variable("v", DType::f64, {1});
    graph.assign(v, graph.feed("x", DType::f64, {1}), "update");
    graph.fetch({graph.find("update"), 0}, "new");
    const auto made = replicate(graph, {.workers = {0, 1, 2}, .servers = {0}, .mean = mean});
    reference::Run run;
    run.variable = [](const Node&) { return Array({1}); };
    run.feed = [](const Node& node, int) { return Array({1}, double(node.name.back() - '0')); };
    return reference::interpret(partition(made.graph, {.ranks = 3}), run).at("new#0")[0];
  };
  EXPECT_EQ(value(true), (0 + 1 + 2) * (1.0 / 3));
  EXPECT_EQ(value(false), 0 + 1 + 2);
}

TEST(Replicate, NeedsNoCreditsBetweenWorkersAndServers) {
  const Replicas made = replicate(model(), {.workers = {0, 1}, .servers = {2, 3}});
  const Plan plan = partition(made.graph, {.ranks = 4});
  for (const Edge& edge : plan.edges) {
    EXPECT_EQ(edge.kind, EdgeKind::fixed);
    EXPECT_FALSE(edge.needs_credits) << edge.name << ": " << edge.why_credits;
  }
}

TEST(Replicate, RefusesWhatItCannotPlace) {
  Graph placed = model();
  placed.place(placed.find("mean_loss"), {1});
  EXPECT_TRUE(refused([&] {
                replicate(placed, {.workers = {0}, .servers = {0}});
              }).names("node 'mean_loss' (ReduceMean) is placed on rank 1 already"));
  EXPECT_EQ(refused([] { replicate(model(), {.servers = {0}}); }).code, Code::bad_argument);
  EXPECT_TRUE(refused([] {
                replicate(model(), {.workers = {0, -1}, .servers = {0}});
              }).names("a worker is rank -1"));
  EXPECT_TRUE(refused([] {
                replicate(model(), {.workers = {0, 1, 0}, .servers = {0}});
              }).names("rank 0 is a worker twice"));
  Graph integers;
  const TensorId v = integers.variable("v", DType::i64, {1});
  integers.assign(v, integers.feed("i", DType::i64, {1}), "update");
  EXPECT_TRUE(refused([&] {
                replicate(integers, {.workers = {0, 1}, .servers = {0}});
              }).names("node 'update' (weft.Assign) gets the integers of node 'i'"));
}

}  // namespace
}  // namespace weft::dataflow
