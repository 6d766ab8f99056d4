// Starts that fail on one rank: all ranks end at once, with the same code and the cause.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/errors.hpp"
#include "tests/threads/dataflow/models.hpp"
#include "weft/signal.hpp"

namespace weft::dataflow {
namespace {

using std::chrono::milliseconds;
using tests::run_on;
using tests::tells;
using tests::thrown_by;

TEST(ExecutorStart, CanBeRepeatedAfterOneThatTimedOut) {
  tests::Meeting meeting(2);
  run_on(2, [&](World& world) {
    if (world.rank() == 0) {
      const ErrorDetail late = thrown_by([&] {
        const Executor executor(world, one_edge(false), reference_kernels(),
                                {.start = Deadline::after(milliseconds(50))});
      });
      EXPECT_TRUE(tells(late, Code::timeout, {"rank 1"}));
    }
    meeting.wait();
    const Executor executor(world, one_edge(false), reference_kernels());
    EXPECT_EQ(executor.step(), 0U);
  });
}

/// The error of the start of one_edge(), which must come long before the default deadline.
ErrorDetail start_error(World& world, const ExecutorOptions& options) {
  const auto begin = Clock::now();
  const ErrorDetail error = thrown_by(
      [&] { const Executor executor(world, one_edge(false), reference_kernels(), options); });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  return error;
}

TEST(ExecutorStart, TakesItsNameAlsoWithoutEdges) {
  run_on(1, [&](World& world) {
    const auto make = [&] { return Executor(world, Graph(), {}); };
    {
      const Executor first = make();
      EXPECT_TRUE(tells(thrown_by(make), Code::duplicate_name, {"executor 'graph' already"}));
    }
    EXPECT_EQ(thrown_by(make).code, Code::ok);
  });
}

TEST(ExecutorStart, TellsAllRanksOfANameThatIsTaken) {
  for (const EdgeWay way : {EdgeWay::views, EdgeWay::slots})
    run_on(2, [&](World& world) {
      const Executor first(world, one_edge(false), reference_kernels(), {.way = way});
      const ErrorDetail error = start_error(world, {.way = way});
      EXPECT_TRUE(tells(error, Code::duplicate_name, {"has an executor 'graph' already"}));
    });
}

/// Rank 1 would wait for the slot that rank 0 can't expose.
TEST(ExecutorStart, TellsAllRanksWhatOneCantExpose) {
  for (const EdgeWay way : {EdgeWay::views, EdgeWay::slots})
    run_on(2, [&](World& world) {
      Signal taken;
      if (world.rank() == 0) taken = Signal::expose(world, "graph/failed step of 1");
      const ErrorDetail error = start_error(world, {.way = way});
      EXPECT_TRUE(tells(error, Code::duplicate_name, {"rank 0 has an executor 'graph' already"}));
    });
}

TEST(ExecutorStart, RefusesAPlanThatTheArenasDontHold) {
  struct Case {
    EdgeWay way;
    std::int64_t elements;
    const char* text;
  };
  for (const Case& one :
       {Case{EdgeWay::views, 1'100'000, "rank 0 needs 4400000 bytes in its published"},
        Case{EdgeWay::slots, 1'100'000, "rank 1 needs 4400000 bytes in its data"}})
    run_on(2, tests::settings().with(Setting::arena_max, "4m"), [&](World& world) {
      Graph graph;
      graph.place_next({0});
      const TensorId x = graph.feed("x", DType::f32, {one.elements});
      graph.place_next({1});
      graph.fetch(graph.add("Relu", {x}), "out");
      const ErrorDetail error = thrown_by(
          [&] { const Executor executor(world, graph, reference_kernels(), {.way = one.way}); });
      EXPECT_TRUE(tells(error, Code::exhausted, {one.text, "are left", "WEFT_ARENA_MAX"}));
    });
}

TEST(ExecutorStart, NamesARankWhoseExecutorHasAnotherName) {
  run_on(2, [&](World& world) {
    const std::string own = "of " + std::to_string(world.rank());
    const std::string other = "of " + std::to_string(1 - world.rank());
    const ErrorDetail error = start_error(world, {.name = own});
    EXPECT_TRUE(tells(error, Code::mismatch, {"'" + own + "'", "'" + other + "'"}));
    EXPECT_EQ(error.peer, 1 - world.rank());
  });
}

TEST(ExecutorStart, NamesTheExecutorThatARankHasNotMade) {
  run_on(2, [&](World& world) {
    if (world.rank() == 1) return;
    const ErrorDetail error =
        start_error(world, {.name = "lonely", .start = Deadline::after(milliseconds(100))});
    EXPECT_TRUE(tells(error, Code::timeout, {"the start of 'lonely'", "rank 1"}));
    EXPECT_EQ(error.operation, "executor");
  });
}

TEST(ExecutorRun, NamesTheNodeOfAnErrorWithoutACode) {
  run_on(1, [&](World& world) {
    Graph graph;
    graph.place_next({0});
    graph.fetch(graph.add("Relu", {graph.feed("x", DType::f32, {1})}, {}, "node"), "out");
    Kernels kernels;
    kernels.add("Relu", [](KernelCall&) { throw Error(ErrorDetail{.code = Code::ok}); });
    Executor executor(world, graph, kernels);
    const Status status = executor.run(feeds_of(executor, 0, 0)).status();
    EXPECT_TRUE(tells(status, Code::system, {"'node'", "without a code"}));
  });
}

}  // namespace
}  // namespace weft::dataflow
