// Feeds in memory that is not the executor's, and feeds that the graph refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/threads/dataflow/losses.hpp"

namespace weft::dataflow {
namespace {

using tests::run_on;
using tests::tells;
using tests::thrown_by;

constexpr std::int64_t kFedRows = 300;
constexpr std::size_t kFedBytes = kFedRows * 3 * sizeof(float);

/// Rank 1 fetches a feed of rank 0.
Graph fed_elsewhere(bool is_dynamic) {
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("x", DType::f32, PartialShape{is_dynamic ? kAnySize : kFedRows, 3});
  graph.fetch(x, "out", {1});
  return graph;
}

enum class FedMemory { executor, wrapped, world };

Tensor fed_tensor(World& world, Executor& executor, FedMemory memory, std::vector<float>& own) {
  const Shape shape{kFedRows, 3};
  if (memory == FedMemory::executor) return executor.feed("x", shape);
  if (memory == FedMemory::world) return world.allocate(DType::f32, shape);
  return Tensor::wrap(own.data(), DType::f32, shape);
}

/// The bytes that rank 0 copies in some steps after the first one. Checks what rank 1 gets.
std::uint64_t copied_of(FedMemory memory, bool is_dynamic, EdgeWay way, const char* fabric,
                        int steps) {
  std::uint64_t copied = 0;
  tests::Meeting meeting(2);
  run_by(fabric)(2, [&](World& world) {
    Executor executor(world, fed_elsewhere(is_dynamic), reference_kernels(), {.way = way});
    EXPECT_EQ(executor.plan().edges.at(0).kind, is_dynamic ? EdgeKind::dynamic : EdgeKind::fixed);
    std::vector<float> own(kFedRows * 3);
    std::uint64_t before = 0;
    for (int step = 0; step <= steps; ++step) {
      Tensors feeds;
      if (world.rank() == 0) {
        feeds["x"] = fed_tensor(world, executor, memory, own);
        std::ranges::fill(feeds["x"].as<float>(), float(step));
      }
      const auto fetched = executor.run(feeds);
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
      // The feed's memory is the application's again.
      std::ranges::fill(own, -1.0F);
      if (world.rank() == 1) {
        const auto out = fetched->at("out").as<float>();
        EXPECT_TRUE(std::ranges::all_of(out, [&](float one) { return one == float(step); }))
            << "step " << step;
      }
      if (step == 0) before = tests::all_counters(world).bytes_copied;
    }
    if (world.rank() == 0) copied = tests::all_counters(world).bytes_copied - before;
    meeting.wait();
  });
  return copied;
}

TEST(Feeds, InOtherMemoryAreCopiedWhereTheyAreSent) {
  constexpr int kSteps = 4;
  for (const char* fabric : {"shm", "tcp"})
    for (const EdgeWay way : {EdgeWay::slots, EdgeWay::rendezvous})
      for (const bool is_dynamic : {false, true}) {
        SCOPED_TRACE(std::string(fabric) + (is_dynamic ? ", dynamic" : ", static") + ", way " +
                     std::to_string(int(way)));
        EXPECT_EQ(copied_of(FedMemory::executor, is_dynamic, way, fabric, kSteps), 0U);
        EXPECT_EQ(copied_of(FedMemory::world, is_dynamic, way, fabric, kSteps), 0U);
        EXPECT_EQ(copied_of(FedMemory::wrapped, is_dynamic, way, fabric, kSteps),
                  kSteps * kFedBytes);
      }
}

TEST(Feeds, OfAnotherNumberOfDimensionsAreRefused) {
  run_on(1, [](World& world) {
    Graph graph;
    graph.place_next({0});
    graph.fetch(graph.feed("x", DType::f32, {kAnySize, 3}), "y");
    Executor executor(world, graph, reference_kernels());
    for (const Shape& shape : {Shape{6}, Shape{2, 3, 1}, Shape{}}) {
      EXPECT_TRUE(tells(executor.run({{"x", world.allocate(DType::f32, shape)}}).status(),
                        Code::mismatch, {"'x'", shape.text(), "[?, 3]"}));
      EXPECT_TRUE(tells(thrown_by([&] { executor.feed("x", shape); }), Code::mismatch, {"'x'"}));
    }
    EXPECT_TRUE(executor.run({{"x", executor.feed("x", {2, 3})}}).ok()) << "it goes on";
  });
}

TEST(Feeds, ThatAreNotDenseAreRefused) {
  run_on(1, [](World& world) {
    Graph graph;
    graph.place_next({0});
    graph.fetch(graph.feed("x", DType::f32, {4, 3}), "y");
    Executor executor(world, graph, reference_kernels());
    const Tensor part = world.allocate(DType::f32, {4, 6}).slice(1, 0, 3);
    EXPECT_TRUE(
        tells(executor.run({{"x", part}}).status(), Code::bad_argument, {"'x'", "not dense"}));
  });
}

}  // namespace
}  // namespace weft::dataflow
