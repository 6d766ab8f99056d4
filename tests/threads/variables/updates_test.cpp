// weft.ApplyGradient: the bits of a table with the same rule, on any placement.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/ranks.hpp"
#include "tests/threads/variables/models.hpp"

namespace weft::pslib {
namespace {

using tests::run_on;
using tests::tells;
using tests::thrown_by;

constexpr int kWorkers = 3;
constexpr int kUpdates = 7;

/// p -= lr g / update, and counts in its state.
class Slower : public Rule {
 public:
  std::string text() const override { return "slower"; }
  std::size_t states() const noexcept override { return 1; }
  void apply(const RuleStep& step, std::span<float> parameters, std::span<const float> gradient,
             std::array<std::span<float>, kMostStates> states) const noexcept override {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      states[0][i] += 1.0F;
      parameters[i] -= step.learning_rate * gradient[i] / states[0][i];
    }
  }
};

struct Case {
  const char* name;
  Optimizer optimizer;
  Schedule schedule{};
};

std::vector<Case> cases() {
  Optimizer decayed = Optimizer::with_momentum(0.05F);
  decayed.weight_decay = 0.01F;
  const Schedule warm{.kind = Schedule::Kind::cosine, .warmup = 3, .period = 5};
  return {{"sgd", Optimizer::sgd(0.1F), warm},
          {"momentum", decayed},
          {"nesterov", Optimizer::nesterov(0.05F)},
          {"adagrad", Optimizer::adagrad(0.1F)},
          {"rmsprop", Optimizer::rmsprop(0.01F)},
          {"adam", Optimizer::adam(0.02F), warm},
          {"adamw", Optimizer::adamw(0.02F, 0.1F)},
          {"ftrl", Optimizer::ftrl(0.1F, 0.01F, 0.02F)},
          {"lars", Optimizer::lars(0.5F, 0.01F)},
          {"user", Optimizer::with(std::make_shared<Slower>(), 0.1F)}};
}

const std::vector<TensorSpec>& specs() {
  // More than one block of a kernel, no multiple of a vector, and one element.
  static const std::vector<TensorSpec> all{{"w", {7, 1001}}, {"bias", {13}}, {"scale", Shape{}}};
  return all;
}

/// A worker's gradient in a step. Step 3's is not finite for one tensor if `spoils`.
void fill_gradient(const Tensor& gradient, const std::string& name, int rank, int step,
                   bool spoils) {
  dataflow::fill_at_random(gradient, std::uint64_t(name[0]) * 100 + std::uint64_t(step * 8 + rank));
  if (spoils && step == 3) gradient.as<float>()[0] = INFINITY;
}

using Values = std::map<std::string, std::string>;

Values by_table(const Case& one, int workers, bool spoils) {
  Values values;
  run_on(workers, [&](World& world) {
    ParameterServer server(world);
    TableOptions options(one.optimizer);
    options.schedule = one.schedule;
    Table table = server.table("model", specs(), options);
    for (const TensorSpec& spec : specs())
      dataflow::fill_at_random(table.parameter(spec.name), std::uint64_t(spec.name[0]));
    table.initialize().or_throw();
    for (int step = 0; step < kUpdates; ++step) {
      for (const TensorSpec& spec : specs())
        fill_gradient(table.gradient(spec.name), spec.name, world.rank(), step, spoils);
      table.push_pull().or_throw();
    }
    if (world.rank() == 0)
      for (const TensorSpec& spec : specs())
        values[spec.name] = bytes_of(table.parameter(spec.name));
    world.leave().or_throw();
  });
  return values;
}

/// Sums in f32, in the order of inputs, as a table does.
Kernels sums() {
  Kernels all;
  all.add("Sum", [](dataflow::KernelCall& call) {
    const auto to = call.output(0).as<float>();
    for (std::size_t at = 0; at < to.size(); ++at) {
      float sum = call.input(0).as<float>()[at];
      for (std::size_t i = 1; i < call.inputs(); ++i) sum += call.input(i).as<float>()[at];
      to[at] = sum;
    }
  });
  all.add("weft.Scale", [](dataflow::KernelCall& call) {
    const auto factor = static_cast<float>(call.attributes().number("factor"));
    const auto from = call.input(0).as<float>();
    for (std::size_t i = 0; i < from.size(); ++i) call.output(0).as<float>()[i] = factor * from[i];
  });
  return all;
}

Graph with_fed_gradients(const Case& one) {
  Graph graph(with_updates());
  std::vector<TensorId> variables;
  std::vector<TensorId> gradients;
  for (const TensorSpec& spec : specs()) {
    variables.push_back(graph.variable(spec.name, DType::f32, spec.shape));
    gradients.push_back(graph.feed("gradient of " + spec.name, DType::f32, spec.shape));
  }
  apply_gradients(graph, gradients, variables, one.optimizer, one.schedule);
  return graph;
}

std::vector<int> first_ranks(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  return all;
}

Values by_graph(const Case& one, int workers, bool spoils) {
  Values values;
  std::mutex mutex;
  run_on(workers, [&](World& world) {
    const std::vector<int> ranks = first_ranks(workers);
    std::vector<std::shared_ptr<const Rule>> rules;
    if (one.optimizer.rule) rules.push_back(one.optimizer.rule);
    Executor executor(
        world, replicate(with_fed_gradients(one), {.workers = ranks, .servers = ranks}).graph,
        with_updates(sums(), rules), {.threads = 1});
    const auto for_each_own = [&](const auto& act) {
      for (const Node& node : executor.plan().parts[std::size_t(world.rank())].graph.nodes())
        for (const TensorSpec& spec : specs())
          if (node.name == spec.name) act(spec.name, executor.variable(spec.name));
    };
    for_each_own([](const std::string& name, const Tensor& variable) {
      dataflow::fill_at_random(variable, std::uint64_t(name[0]));
    });
    for (int step = 0; step < kUpdates; ++step) {
      dataflow::Tensors feeds;
      for (const TensorSpec& spec : specs()) {
        const std::string name = "gradient of " + spec.name + "@" + std::to_string(world.rank());
        fill_gradient(feeds[name] = executor.feed(name), spec.name, world.rank(), step, spoils);
      }
      executor.run(feeds).value();
    }
    const std::lock_guard lock(mutex);
    for_each_own([&](const std::string& name, const Tensor& variable) {
      values[name] = bytes_of(variable);
    });
  });
  return values;
}

TEST(VariableUpdates, HaveTheBitsOfATableWithTheSameRule) {
  for (const Case& one : cases())
    for (const int workers : {1, kWorkers}) {
      const Values table = by_table(one, workers, false);
      ASSERT_EQ(table.size(), specs().size());
      EXPECT_EQ(by_graph(one, workers, false), table) << one.name << ", " << workers << " workers";
    }
}

TEST(VariableUpdates, SkipAGradientThatLarsCannotMeasure) {
  const Case lars{"lars", Optimizer::lars(0.5F, 0.01F)};
  EXPECT_EQ(by_graph(lars, 1, true), by_table(lars, 1, true));
}

/// The losses of a trained layer as three replicas, by name; all of them on rank 0 if `is_alone`.
Values losses(const std::vector<int>& servers, dataflow::ReplicaOptions::Spread spread,
              bool is_alone) {
  Values losses;
  std::mutex mutex;
  run_on(is_alone ? 1 : kWorkers, [&](World& world) {
    Layer layer;
    apply_gradients(layer.graph, layer.loss, layer.variables, Optimizer::adam(0.02F));
    Graph graph =
        replicate(layer.graph,
                  {.workers = first_ranks(kWorkers), .servers = servers, .spread = spread})
            .graph;
    for (dataflow::NodeId i = 0; is_alone && i < dataflow::NodeId(graph.size()); ++i)
      graph.place(i, {0});
    Executor executor(world, graph, kernels(), {.threads = world.rank()});
    start(executor, world.rank());
    for (int step = 0; step < kUpdates; ++step) {
      const auto fetched = executor.run(feeds(executor, world.rank(), std::uint64_t(step))).value();
      const std::lock_guard lock(mutex);
      for (const auto& [name, loss] : fetched)
        losses[name + " of step " + std::to_string(step)] = bytes_of(loss);
    }
  });
  return losses;
}

TEST(VariableUpdates, GiveTheSameBitsOnAnyPlacement) {
  using enum dataflow::ReplicaOptions::Spread;
  const Values alone = losses({0}, round_robin, true);
  ASSERT_EQ(alone.size(), std::size_t(kWorkers * kUpdates));
  EXPECT_NE(alone.at("loss@0 of step 0"), alone.at("loss@0 of step 6"));
  EXPECT_EQ(losses({0, 1, 2}, round_robin, false), alone);
  EXPECT_EQ(losses({2, 1}, by_bytes, false), alone);
  EXPECT_EQ(losses({1}, round_robin, false), alone);
}

TEST(VariableUpdates, AreRefusedBeforeTheFirstStep) {
  const Optimizer sgd = Optimizer::sgd(0.1F);
  Layer layer;
  Graph plain;
  const std::vector<TensorId> one{plain.variable("w", DType::f32, {3})};
  EXPECT_TRUE(tells(thrown_by([&] { apply_gradients(plain, one, one, sgd); }), Code::bad_argument,
                    {"weft.ApplyGradient", "with_updates()"}));
  EXPECT_TRUE(tells(thrown_by([&] {
                      apply_gradients(layer.graph, std::vector{layer.loss}, std::vector{layer.loss},
                                      sgd);
                    }),
                    Code::bad_argument, {"'mean loss'", "is no variable"}));
  EXPECT_TRUE(tells(thrown_by([&] {
                      apply_gradients(layer.graph, std::vector{layer.variables[1]},
                                      std::vector{layer.variables[0]}, sgd);
                    }),
                    Code::bad_argument, {"gradient of variable 'w' is f32[5]"}));
  EXPECT_TRUE(tells(thrown_by([&] {
                      apply_gradients(layer.graph, std::vector<TensorId>(),
                                      std::vector{layer.variables[0]}, sgd);
                    }),
                    Code::bad_argument, {"0 gradients for 1 variables"}));
  Optimizer adam = Optimizer::adam(0.1F);
  adam.beta1 = 2.0F;
  EXPECT_TRUE(
      tells(thrown_by([&] { apply_gradients(layer.graph, layer.loss, layer.variables, adam); }),
            Code::bad_argument, {"beta1"}));
  const TensorId count = layer.graph.variable("count", DType::i64, Shape{});
  const auto add = [&](const char* rule, std::vector<TensorId> inputs) {
    layer.graph.add("weft.ApplyGradient", std::move(inputs), {{"rule", std::string(rule)}});
  };
  const TensorId w = layer.variables[0];
  EXPECT_TRUE(tells(thrown_by([&] {
                      add("best", {w, w, count});
                    }),
                    Code::bad_argument, {"there is no rule best"}));
  EXPECT_TRUE(tells(thrown_by([&] {
                      add("adam", {w, w, count});
                    }),
                    Code::bad_argument, {"updates and 2 states"}));
  EXPECT_TRUE(tells(thrown_by([&] {
                      add("sgd", {w, w, w});
                    }),
                    Code::bad_argument, {"updates must be one i64"}));
}

TEST(VariableUpdates, NeedTheUsersRuleInTheKernels) {
  run_on(1, [](World& world) {
    const Case user{"user", Optimizer::with(std::make_shared<Slower>(), 0.1F)};
    Executor executor(world,
                      replicate(with_fed_gradients(user), {.workers = {0}, .servers = {0}}).graph,
                      with_updates(sums()));
    EXPECT_TRUE(tells(executor.run(feeds(executor, 0, 0)).status(), Code::bad_argument,
                      {"update of", "there is no rule 'slower'", "with_updates()"}));
  });
  EXPECT_TRUE(tells(thrown_by([] {
                      const auto rule = std::make_shared<const Slower>();
                      with_updates(Kernels(), std::vector<std::shared_ptr<const Rule>>{rule, rule});
                    }),
                    Code::bad_argument, {"two rules", "slower"}));
}

}  // namespace
}  // namespace weft::pslib
