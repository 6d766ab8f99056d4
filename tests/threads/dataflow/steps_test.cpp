// Steps: equal bits for all placements, and the memory of feeds and variables.
#include <gtest/gtest.h>

#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

using tests::run_on;
using tests::settings;

/// The bytes of all losses of some steps of a training loop whose nodes are placed at random.
std::string losses(int ranks, int threads, const char* fabric, std::uint64_t seed) {
  std::string bytes;
  run_on(ranks, settings().with(Setting::fabric, fabric), [&](World& world) {
    Graph graph = training_model();
    place_at_random(graph, ranks, seed);
    Executor executor(world, graph, reference_kernels(), {.threads = threads});
    start_variables(executor, world.rank());
    for (int step = 0; step < 5; ++step)
      for (const auto& [name, loss] : executor.run(feeds_of(executor, world.rank(), step)).value())
        bytes.append(reinterpret_cast<const char*>(loss.data()), loss.bytes());
  });
  return bytes;
}

TEST(Steps, GiveTheSameBitsOnAnyNumberOfRanksWithAnyPlacementAndThreads) {
  const std::string one = losses(1, 0, "auto", 0);
  ASSERT_EQ(one.size(), 5 * sizeof(float));
  EXPECT_NE(one.substr(0, 4), one.substr(16)) << "the model learns";
  std::uint64_t seed = 1;
  for (const char* fabric : {"shm", "tcp"})
    for (const int ranks : {2, 3, 5, 8}) {
      const int threads = int(seed % 4);
      EXPECT_EQ(losses(ranks, threads, fabric, seed), one)
          << fabric << ", " << ranks << " ranks, " << threads << " threads, seed " << seed;
      ++seed;
    }
}

TEST(Steps, KeepAFeedsAndAVariablesMemory) {
  run_on(1, [](World& world) {
    Graph graph = training_model();
    for (NodeId i = 0; i < NodeId(graph.size()); ++i) graph.place(i, {0});
    Executor executor(world, graph, reference_kernels());
    EXPECT_EQ(executor.feed("x").data(), executor.feed("x").data());
    const Tensor w = executor.variable("w");
    EXPECT_EQ(w.as<float>()[3], 0) << "zeros at first";
    start_variables(executor, 0);
    const float before = w.as<float>()[3];
    EXPECT_TRUE(executor.run(feeds_of(executor, 0, 0)).ok());
    EXPECT_EQ(executor.variable("w").data(), w.data());
    EXPECT_NE(w.as<float>()[3], before) << "assigned in place";
    EXPECT_EQ(executor.counters().steps, 1U);
  });
}

TEST(Steps, GoOnInAnExecutorThatHasMoved) {
  run_on(2, [](World& world) {
    Executor first(world, one_edge(false), reference_kernels(), {.name = "first", .threads = 1});
    const auto step_of = [&](Executor& executor, int step) {
      const auto fetched = executor.run(feeds_of(executor, world.rank(), step));
      EXPECT_TRUE(fetched.ok()) << fetched.status().text();
    };
    step_of(first, 0);
    Executor second(std::move(first));
    step_of(second, 1);
    Executor third(world, one_edge(true), reference_kernels(), {.name = "third"});
    third = std::move(second);  // which ends the other one
    Executor& same = third;
    third = std::move(same);
    step_of(third, 2);
    EXPECT_EQ(third.counters().steps, 3U);
    const Executor again(world, one_edge(true), reference_kernels(), {.name = "third"});
  });
}

}  // namespace
}  // namespace weft::dataflow
