// Executors with these kernels: a convolutional network learns, and gives the same bits wherever
// its nodes run.
#include <gtest/gtest.h>

#include "tests/support/ranks.hpp"
#include "tests/threads/dataflow/models.hpp"
#include "weft/operators.hpp"

namespace weft::dataflow {
namespace {

using tests::run_on;

constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kClasses = 3;

/// Convolution, normalisation, pool and a layer, trained by gradient descent; not placed.
Graph network() {
  Graph graph;
  const TensorId x = graph.feed("x", DType::f32, {kBatch, 1, 8, 8});
  const TensorId labels = graph.feed("labels", DType::i64, {kBatch});
  const TensorId filter = graph.variable("filter", DType::f32, {16, 1, 3, 3});
  const TensorId scale = graph.variable("scale", DType::f32, {16});
  const TensorId shift = graph.variable("shift", DType::f32, {16});
  const TensorId mean = graph.variable("mean", DType::f32, {16});
  const TensorId variance = graph.variable("variance", DType::f32, {16});
  const TensorId w = graph.variable("w", DType::f32, {256, kClasses});
  const TensorId bias = graph.variable("bias", DType::f32, {kClasses});
  TensorId at = graph.add("Conv", {x, filter}, {{"pads", Sizes{1, 1, 1, 1}}});
  at = graph.add("BatchNormalization", {at, scale, shift, mean, variance}, {{"training_mode", 1}},
                 "normal");
  const TensorId normal = at;
  at = graph.add("Relu", {at});
  at = graph.add("MaxPool", {at}, {{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}});
  at = graph.add("Reshape", {at}, {{"shape", Sizes{0, -1}}});
  at = graph.add("Add", {graph.add("MatMul", {at, w}), bias});
  const TensorId loss = graph.add("SoftmaxCrossEntropyLoss", {at, labels}, {}, "entropy");
  graph.fetch(loss, "loss");
  const std::vector<TensorId> variables{filter, scale, shift, w, bias};
  const auto found = gradients(graph, loss, variables);
  for (std::size_t i = 0; i < variables.size(); ++i)
    graph.assign(
        variables[i],
        graph.add("Add", {variables[i], graph.add("weft.Scale", {found[i]}, {{"factor", -0.1}})}));
  graph.assign(mean, {normal.node, 1});
  graph.assign(variance, {normal.node, 2});
  return graph;
}

/// Fills this rank's feeds: a picture of a class has a bright row.
Tensors pictures(Executor& executor, int rank, int step) {
  Tensors feeds;
  for (const Node& node : executor.plan().parts[std::size_t(rank)].graph.nodes()) {
    if (node.definition->name != "weft.Feed") continue;
    const Tensor feed = feeds[node.name] = executor.feed(node.name);
    if (node.name == "x") fill_at_random(feed, std::uint64_t(step));
    for (std::int64_t n = 0; n < kBatch; ++n) {
      const std::int64_t label = (n + step) % kClasses;
      if (node.name == "labels") feed.as<std::int64_t>()[std::size_t(n)] = label;
      if (node.name == "x")
        for (std::int64_t i = 0; i < 8; ++i)
          feed.as<float>()[std::size_t((n * 8 + 2 * label) * 8 + i)] += 1;
    }
  }
  return feeds;
}

/// The losses of some steps, with nodes placed at random.
std::vector<float> losses(int ranks, int threads, std::uint64_t seed, int steps,
                          const Kernels& kernels = operators()) {
  std::vector<float> all;
  run_on(ranks, [&](World& world) {
    Graph graph = network();
    place_at_random(graph, ranks, seed);
    Executor executor(world, graph, kernels, {.threads = threads});
    start_variables(executor, world.rank());
    for (int step = 0; step < steps; ++step)
      for (const auto& [name, loss] : executor.run(pictures(executor, world.rank(), step)).value())
        all.push_back(loss.as<float>()[0]);
  });
  return all;
}

TEST(OperatorsInAnExecutor, LearnAsTheReferenceDoes) {
  const auto told = losses(1, 0, 0, 40);
  const auto expected = losses(1, 0, 0, 3, reference_kernels());
  ASSERT_EQ(told.size(), 40U);
  for (std::size_t step = 0; step < expected.size(); ++step)
    EXPECT_NEAR(told[step], expected[step], 1e-3) << step;
  EXPECT_LT(told.back(), told.front() / 2);
}

TEST(OperatorsInAnExecutor, GiveTheSameBitsOnAnyNumberOfRanksAndThreads) {
  constexpr int kSteps = 4;
  const auto one = losses(1, 0, 0, kSteps);
  for (const int ranks : {1, 2, 3})
    for (const int threads : {0, 2})
      EXPECT_EQ(losses(ranks, threads, std::uint64_t(ranks * 10 + threads), kSteps), one)
          << ranks << " ranks, " << threads << " threads";
}

TEST(OperatorsInAnExecutor, DropTheSameAfterARestartAndInEachExecutorOfASet) {
  run_on(1, [](World& world) {
    Graph graph;
    graph.place_next({0});
    const TensorId x = graph.feed("x", DType::f32, {100});
    graph.fetch(graph.add("Dropout", {x}, {{"ratio", 0.5}, {"seed", 2}}), "y");
    const Kernels kernels = operators();
    Executor first(world, graph, kernels, {.name = "first"});
    Executor second(world, graph, kernels, {.name = "second"});
    const auto next = [](Executor& executor) {
      Tensors feeds{{"x", executor.feed("x")}};
      std::ranges::fill(feeds["x"].as<float>(), 1.0F);
      const Tensors fetched = executor.run(feeds).value();
      const auto y = fetched.at("y").as<float>();
      return std::vector<float>(y.begin(), y.end());
    };
    std::vector<std::vector<float>> undisturbed;
    for (int step = 0; step < 4; ++step) undisturbed.push_back(next(first));
    EXPECT_NE(undisturbed[0], undisturbed[1]);
    EXPECT_EQ(next(second), undisturbed[0]);
    second.resume(2);
    EXPECT_EQ(next(second), undisturbed[2]);
    EXPECT_EQ(next(second), undisturbed[3]);
  });
}

TEST(OperatorsInAnExecutor, EndAStepWithTheNodeThatCannotBeComputed) {
  run_on(1, [](World& world) {
    Graph graph;
    graph.place_next({0});
    const TensorId scores = graph.feed("scores", DType::f32, {1, 2});
    const TensorId labels = graph.feed("labels", DType::i64, {1});
    graph.fetch(graph.add("SoftmaxCrossEntropyLoss", {scores, labels}, {}, "entropy"), "loss");
    Executor executor(world, graph, operators());
    Tensors feeds{{"scores", executor.feed("scores")}, {"labels", executor.feed("labels")}};
    fill_at_random(feeds["scores"], 1);
    feeds["labels"].as<std::int64_t>()[0] = 5;
    const Status status = executor.run(feeds).status();
    EXPECT_EQ(status.code(), Code::bad_argument);
    EXPECT_EQ(status.detail().message,
              "node 'entropy' (SoftmaxCrossEntropyLoss) with inputs (f32[1, 2], i64[1]): element 0 "
              "of input 1 is 5, outside [0, 2)");
  });
}

}  // namespace
}  // namespace weft::dataflow
