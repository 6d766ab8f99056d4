// docs/dataflow.md: the code that runs its graph compiles, and runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "tests/threads/dataflow/models.hpp"
#include "tests/unit/dataflow/guide.hpp"
#include "tests/unit/dataflow/guide_model.hpp"

namespace weft::dataflow {
namespace {

void fill_all(const Tensors& feeds) {
  for (const auto& [name, tensor] : feeds)
    if (tensor.dtype() == DType::f32)
      fill_at_random(tensor, 7);
    else
      std::ranges::fill(tensor.as<std::int64_t>(), 2);
}

/// As a trainer has them.
void add_others(Kernels& kernels) {
  for (const std::string& name : Definitions::standard().names())
    if (name != "MatMul") kernels.add(name, *reference_kernels().find(name));
}

void train_on_rank_1(World& world, const Replicas& replicas, int steps) {
  const Kernel my_matmul = *reference_kernels().find("MatMul");
  float last = 3.0F;
  // clang-format off
  Kernels kernels;
  kernels.add("MatMul", my_matmul);  // and the others
  add_others(kernels);
  Executor executor(world, replicas.graph, kernels, {.threads = 3});
  for (int step = 0; step < steps; ++step) {
    Tensors feeds;  // of rank 1; rank 0 has none
    for (const char* name : {"x@1", "labels@1"}) feeds[name] = executor.feed(name);
    // Fill them.
    fill_all(feeds);
    const Tensors fetched = executor.run(feeds).value();
    std::printf("loss %g\n", fetched.at("the loss@1").as<float>()[0]);
    EXPECT_LT(fetched.at("the loss@1").as<float>()[0], last) << "it learns";
    last = fetched.at("the loss@1").as<float>()[0];
  }
  // clang-format on
}

TEST(ExecutorGuide, ShowsCodeThatRuns) {
  constexpr int kSteps = 5;
  tests::run_on(3, [](World& world) {
    const Replicas replicas = guide::replicas();
    if (world.rank() == 1) return train_on_rank_1(world, replicas, kSteps);
    Executor executor(world, replicas.graph, reference_kernels());
    for (int step = 0; step < kSteps; ++step) {
      Tensors feeds;
      if (world.rank() == 2)
        for (const char* name : {"x@2", "labels@2"}) feeds[name] = executor.feed(name);
      fill_all(feeds);
      executor.run(feeds).value();
    }
  });
  const std::string code = guide::file("tests/threads/dataflow/executor_guide_test.cpp");
  const auto block = guide::block_after("## Running");
  EXPECT_GT(block.size(), 8U);
  for (const std::string& line : block) EXPECT_NE(code.find(line), std::string::npos) << line;
}

/// Writes a row for each number above 0, and returns how many.
std::int64_t search(const Tensor& numbers, const Tensor& rows) {
  std::int64_t found = 0;
  for (const float one : numbers.as<float>())
    if (one > 0) std::ranges::fill(rows.slice(0, found++, 1).as<float>(), one);
  return found;
}

void find_rows(KernelCall& call) {
  const std::int64_t most = call.input(0).shape()[0];
  // clang-format off
  Tensor found = call.allocate(DType::f32, {most, 4});
  const std::int64_t rows = search(call.input(0), found);
  call.give(0, found.slice(0, 0, rows));
  // clang-format on
}

TEST(ExecutorGuide, ShowsAKernelThatFindsItsSize) {
  Definitions definitions = Definitions::standard();
  definitions.add({.name = "my.Search",
                   .inputs = {{"X"}},
                   .outputs = {{"Y"}},
                   .infer = [](const Inference& in) {
                     return std::vector<TensorType>{{in.dtype(0), PartialShape{kAnySize, 4}}};
                   }});
  tests::run_on(1, [&](World& world) {
    Graph graph(definitions);
    graph.place_next({0});
    graph.fetch(graph.add("my.Search", {graph.feed("x", DType::f32, {5})}), "rows");
    Kernels kernels;
    kernels.add("my.Search", find_rows);
    Executor executor(world, graph, kernels);
    const Tensor x = executor.feed("x");
    std::ranges::copy(std::array{1.0F, -1.0F, 2.0F, -2.0F, 3.0F}, x.as<float>().begin());
    const Tensor rows = executor.run({{"x", x}}).value().at("rows");
    EXPECT_EQ(rows.shape(), (Shape{3, 4}));
    EXPECT_EQ(rows.as<float>()[11], 3.0F);
  });
  const std::string code = guide::file("tests/threads/dataflow/executor_guide_test.cpp");
  const auto block = guide::block_after("### Kernels");
  EXPECT_EQ(block.size(), 3U);
  for (const std::string& line : block) EXPECT_NE(code.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace weft::dataflow
