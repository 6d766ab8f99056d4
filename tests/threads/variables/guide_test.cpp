// docs/dataflow.md: the code of its section on variables compiles, and runs.
#include <gtest/gtest.h>

#include "tests/support/ranks.hpp"
#include "tests/threads/variables/models.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/dataflow/guide.hpp"

namespace weft::dataflow {
namespace {

struct Model {
  TensorId loss;
  std::vector<TensorId> variables;
};

Model add_model(Graph& graph) {
  const TensorId x = graph.feed("x", DType::f32, {4, 3});
  const std::vector<TensorId> variables{graph.variable("w", DType::f32, {3, 2})};
  const TensorId y = graph.add("Tanh", {graph.add("MatMul", {x, variables[0]})});
  const TensorId loss = graph.add("ReduceMean", {graph.add("Mul", {y, y})}, {{"keepdims", 0}}, "l");
  graph.fetch(loss, "loss");
  return {loss, variables};
}

void expect_in_the_code(const char* heading, std::size_t least) {
  const std::string code = guide::file("tests/threads/variables/guide_test.cpp");
  const auto block = guide::block_after(heading);
  EXPECT_GE(block.size(), least);
  for (const std::string& line : block) EXPECT_NE(code.find(line), std::string::npos) << line;
}

TEST(VariablesGuide, ShowsCodeThatTrainsOnServers) {
  const tests::TempFolder temporary;
  const std::string folder = temporary.path();
  const Kernels my_kernels = reference_kernels();
  std::uint64_t steps = 3;
  for (const std::uint64_t restored : {0U, 2U}) {
    tests::run_on(3, [&](World& world) {
      const auto feeds_of = [&](Executor& executor) {
        return pslib::feeds(executor, world.rank(), executor.step());
      };
      // clang-format off
      Graph model(pslib::with_updates());
      const auto [loss, variables] = add_model(model);
      pslib::apply_gradients(model, loss, variables, pslib::Optimizer::adam(0.001F));
      const Replicas replicas = replicate(model, {.workers = {1, 2}, .servers = {0}});
      Executor executor(world, replicas.graph, pslib::with_updates(my_kernels));
      if (world.rank() == 0) fill_at_random(executor.variable("w"), 1);
      pslib::VariableCheckpoints saved(world, executor, {.folder = folder, .every = 2});
      EXPECT_EQ(executor.step(), restored);
      while (executor.step() < steps) {
        executor.run(feeds_of(executor)).value();
        saved.step_ended().or_throw();
      }
      // clang-format on
      world.leave().or_throw();
    });
    steps = 5;
  }
  expect_in_the_code("## Variables", 9);
}

TEST(VariablesGuide, ShowsCodeThatTrainsWithATable) {
  const Kernels my_kernels = reference_kernels();
  constexpr int kSteps = 4;
  const int steps = kSteps;
  tests::run_on(2, [&](World& world) {
    float first = 0;
    float last = 0;
    const auto feeds_of = [&](Executor& executor) {
      return pslib::feeds(executor, world.rank(), 0);
    };
    // clang-format off
    Graph model;
    const auto [loss, variables] = add_model(model);
    pslib::push_gradients(model, gradients(model, loss, variables), variables);
    Executor executor(world, replicate(model, {.workers = {0, 1}}).graph, my_kernels);
    pslib::ParameterServer server(world);
    pslib::Table table = server.table("model", pslib::table_specs(model, variables),
                                      pslib::Optimizer::adam(0.1F));
    fill_at_random(table.parameter("w"), 1);
    table.initialize().or_throw();
    pslib::TableVariables bound(world, executor, table);
    for (int step = 0; step < steps; ++step) {
      const Tensors fetched = bound.run(feeds_of(executor)).value();
      last = fetched.begin()->second.as<float>()[0];
      if (step == 0) first = last;
    }
    bound.pull().or_throw();
    world.leave().or_throw();  // before the table goes, whose shards others may still read
    // clang-format on
    EXPECT_LT(last, first) << "it learns";
  });
  expect_in_the_code("### In a table", 12);
}

}  // namespace
}  // namespace weft::dataflow
