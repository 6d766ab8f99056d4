// docs/dataflow.md: the code that adds kernels of one's own to weft's compiles, and runs.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/ranks.hpp"
#include "tests/unit/dataflow/guide.hpp"
#include "weft/executor.hpp"
#include "weft/operators.hpp"

namespace weft::dataflow {
namespace {

void my_gather(KernelCall& call) { std::ranges::fill(call.output(0).as<float>(), 7.0F); }
void my_own(KernelCall& call) {
  std::ranges::copy(call.input(0).as<float>(), call.output(0).as<float>().begin());
}

TEST(OperatorsGuide, ShowsOwnKernelsBesideWefts) {
  Definitions definitions = Definitions::standard();
  definitions.add({.name = "my.Attention",
                   .inputs = {{"X"}},
                   .outputs = {{"Y"}},
                   .infer = [](const Inference& in) { return std::vector{in.input(0)}; }});
  Graph graph(definitions);
  graph.place_next({0});
  const TensorId rows = graph.add(
      "Gather", {graph.feed("table", DType::f32, {4, 2}), graph.feed("indices", DType::i64, {3})});
  graph.fetch(graph.add("Add", {graph.add("my.Attention", {rows}), rows}), "out");
  tests::run_on(1, [&](World& world) {
    // clang-format off
    Kernels own;
    own.add("Gather", my_gather);     // in place of weft's
    own.add("my.Attention", my_own);  // of a definition of yours
    Executor executor(world, graph, operators(own));
    // clang-format on
    const Tensor table = executor.feed("table");
    const Tensor indices = executor.feed("indices");
    std::ranges::fill(table.as<float>(), 1.0F);
    std::ranges::fill(indices.as<std::int64_t>(), 0);
    const Tensors fetched = executor.run({{"table", table}, {"indices", indices}}).value();
    for (const float one : fetched.at("out").as<float>())
      EXPECT_EQ(one, 14.0F) << "weft's Add of one's own Gather";
  });
  const std::string code = guide::file("tests/unit/operators/guide_test.cpp");
  const auto block = guide::block_after("### Kernels", 1);
  EXPECT_EQ(block.size(), 4U);
  for (const std::string& line : block) EXPECT_NE(code.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace weft::dataflow
