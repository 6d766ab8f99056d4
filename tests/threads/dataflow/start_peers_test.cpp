// The start of an executor beside others, and with ranks that do not take part.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/threads/dataflow/losses.hpp"

namespace weft::dataflow {
namespace {

using std::chrono::milliseconds;
using tests::run_on;
using tests::tells;
using tests::thrown_by;

/// An own definition with an attribute that nodes leave out.
Definitions definitions_with(double standard_value, Reuse::Kind reuse) {
  Definitions definitions = Definitions::standard();
  definitions.add({.name = "my.Leaky",
                   .inputs = {{"X"}},
                   .outputs = {{"Y"}},
                   .attributes = {{"slope", standard_value}},
                   .infer = [](const Inference& in) { return std::vector{in.input(0)}; },
                   .reuses = {{0, 0, reuse}}});
  return definitions;
}

/// Rank 2 of three has other definitions of an equal graph.
void expect_told(const Definitions& others, const char* difference) {
  run_on(3, [&](World& world) {
    Graph graph(world.rank() == 2 ? others : definitions_with(0.5, Reuse::Kind::may));
    graph.place_next({0});
    const TensorId x = graph.add("Relu", {graph.feed("x", DType::f32, {4})}, {}, "before");
    graph.fetch(graph.add("my.Leaky", {x}, {}, "leaky"), "out");
    Kernels kernels = reference_kernels();
    kernels.add("my.Leaky", [](KernelCall& call) { static_cast<void>(call.output(0)); });
    const ErrorDetail error = thrown_by([&] { const Executor executor(world, graph, kernels); });
    EXPECT_TRUE(tells(error, Code::mismatch,
                      {"leaky", world.rank() == 2 ? "rank 0" : "rank 2", difference}));
  });
}

TEST(ExecutorStart, NamesTheFirstNodeWhoseDefinitionDiffersBetweenRanks) {
  expect_told(definitions_with(0.25, Reuse::Kind::may), "slope=0x1p-2");
  expect_told(definitions_with(0.5, Reuse::Kind::must), "may overwrite input 0");
}

TEST(ExecutorStart, RefusesANameThatAnotherExecutorHas) {
  for (const EdgeWay way : kWays)
    run_on(2, [&](World& world) {
      Graph graph = training_model();
      place_at_random(graph, 2, 3);
      const ExecutorOptions options{.name = "twin", .way = way};
      Executor first(world, graph, reference_kernels(), options);
      const ErrorDetail error =
          thrown_by([&] { const Executor second(world, graph, reference_kernels(), options); });
      EXPECT_TRUE(tells(error, Code::duplicate_name, {"twin"})) << int(way);
      start_variables(first, world.rank());
      EXPECT_TRUE(first.run(feeds_of(first, world.rank(), 0)).ok()) << "the first goes on";
    });
}

TEST(ExecutorStart, TakesANameAgainAfterTheExecutorThatHadIt) {
  for (const EdgeWay way : kWays)
    run_on(2, [&](World& world) {
      for (int i = 0; i < 3; ++i) {
        Executor executor(world, one_edge(i == 1), reference_kernels(),
                          {.name = "again", .way = way});
        Tensors feeds;
        if (world.rank() == 0) {
          feeds["x"] = executor.feed("x", {1000, 3});
          fill_at_random(feeds["x"], 1);
        }
        const auto fetched = executor.run(feeds);
        ASSERT_TRUE(fetched.ok()) << i << ": " << fetched.status().text();
      }
    });
}

/// Rank 0 dies while the others start; each of them finds out.
TEST(ExecutorStart, EndsWithTheNameOfARankThatDies) {
  for (const char* fabric : {"shm", "tcp"}) {
    tests::Meeting meeting(3);
    run_on(3, tests::settings().with(Setting::fabric, fabric), [&](World& world) {
      Graph graph = training_model();
      place_at_random(graph, 3, 20);
      meeting.wait();
      if (world.rank() != 0) {
        std::thread detector([&] {
          std::this_thread::sleep_for(milliseconds(100));
          world.declare_dead(0, "the test gave it up");
        });
        const auto begin = std::chrono::steady_clock::now();
        const ErrorDetail error =
            thrown_by([&] { const Executor executor(world, graph, reference_kernels()); });
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
        detector.join();
        EXPECT_TRUE(tells(error, Code::peer_failed, {"rank 0", "the test gave it up"})) << fabric;
        EXPECT_EQ(error.peer, 0);
      }
      meeting.wait();
    });
  }
}

}  // namespace
}  // namespace weft::dataflow
