// The ways of edges: their costs, changing shapes, and failures that are the same by all.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/threads/dataflow/losses.hpp"

namespace weft::dataflow {
namespace {

using std::chrono::milliseconds;
using tests::Meeting;
using tests::run_on;
using tests::tells;

TEST(Ways, ByRendezvousMoveEachTensorOnceWithoutACopy) {
  constexpr std::uint64_t kBytes = 3000 * sizeof(float);
  for (const char* fabric : {"shm", "tcp"}) {
    Meeting meeting(2);
    run_on(2, tests::settings().with(Setting::fabric, fabric), [&](World& world) {
      Executor executor(world, one_edge(false), reference_kernels(), {.way = EdgeWay::rendezvous});
      EXPECT_EQ(executor.plan().edges[0].kind, EdgeKind::fixed);
      ASSERT_TRUE(executor.run(feeds_of(executor, world.rank(), 0)).ok());
      meeting.wait();
      const TransferCounters before = tests::all_counters(world);
      meeting.wait();
      for (int step = 1; step <= kLossSteps; ++step)
        ASSERT_TRUE(executor.run(feeds_of(executor, world.rank(), step)).ok());
      const TransferCounters cost = tests::all_counters(world) - before;
      EXPECT_EQ(cost.bytes_copied, 0U) << "the shape is known since step 1";
      EXPECT_EQ(cost.registrations, 0U);
      const ExecutorReport report = executor.report();
      SCOPED_TRACE(report.text());
      const EdgeActivity& one = report.edges.at(0);
      EXPECT_EQ(one.fabric, fabric);
      EXPECT_EQ(one.role, world.rank() == 0 ? Role::puts : Role::receives);
      EXPECT_EQ(one.counters.transfers, kLossSteps + 1U);
      EXPECT_EQ(one.counters.bytes_moved, (kLossSteps + 1) * kBytes);
      meeting.wait();
    });
  }
}

TEST(Ways, ByRendezvousTakeChangingShapes) {
  run_on(2, [&](World& world) {
    Executor executor(world, one_edge(true), reference_kernels(), {.way = EdgeWay::rendezvous});
    for (int step = 0; step < kLossSteps; ++step) {
      Tensors feeds;
      if (world.rank() == 0) {
        feeds["x"] = executor.feed("x", {step, 3});
        std::ranges::fill(feeds["x"].as<float>(), float(step));
      }
      const auto fetched = executor.run(feeds);
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
      if (world.rank() == 1) {
        const Tensor& out = fetched->at("out");
        EXPECT_EQ(out.shape(), (Shape{step, 3}));
        EXPECT_TRUE(std::ranges::all_of(out.as<float>(),
                                        [&](float one) { return one == 2 * float(step); }));
      }
    }
  });
}

/// More edges than one rank may have requests under way.
TEST(Ways, ByRendezvousTakeManyEdges) {
  constexpr int kEdges = 200;
  run_on(2, [&](World& world) {
    Graph graph;
    for (int i = 0; i < kEdges; ++i) {
      graph.place_next({0});
      const TensorId x = graph.add(
          "weft.Fill", {}, {{"dtype", "f32"}, {"shape", Sizes{1 + i % 7}}, {"value", double(i)}});
      graph.place_next({1});
      graph.fetch(graph.add("weft.Scale", {x}, {{"factor", 2.0}}), "out" + std::to_string(i));
    }
    Executor executor(world, graph, reference_kernels(), {.way = EdgeWay::rendezvous});
    for (int step = 0; step < 3; ++step) {
      const auto fetched = executor.run();
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
      for (const auto& [name, tensor] : *fetched)
        EXPECT_EQ(tensor.as<float>()[0], 2 * std::stof(name.substr(3)));
    }
  });
}

/// By each way: rank 1 waits for rank 0, which is late, has failed or has left.
TEST(Ways, NameNodeEdgeAndRankAtTheDeadline) {
  for (const EdgeWay way : kWays) {
    Meeting meeting(2);
    run_on(2, [&](World& world) {
      Executor executor(world, one_edge(false), reference_kernels(), {.way = way});
      if (world.rank() == 1) {
        const Status status = executor.run({}, Deadline::after(milliseconds(100))).status();
        EXPECT_TRUE(
            tells(status, Code::timeout, {"receive y:0 from 0", "edge y:0 from rank 0 to 1"}));
        EXPECT_EQ(status.detail().peer, 0);
      }
      meeting.wait();
    });
  }
}

TEST(Ways, NameARankWhoseStepFailed) {
  for (const EdgeWay way : kWays) {
    Meeting meeting(2);
    run_on(2, [&](World& world) {
      Kernels kernels;
      kernels.add("Relu", [](KernelCall&) { throw std::runtime_error("no luck"); });
      kernels.add("weft.Scale", [](KernelCall& call) { call.output(0); });
      Executor executor(world, one_edge(false), kernels, {.way = way});
      meeting.wait();
      const Status status = executor.run(feeds_of(executor, world.rank(), 0)).status();
      if (world.rank() == 0) {
        EXPECT_TRUE(tells(status, Code::system, {"'y'", "no luck"}));
      } else {
        EXPECT_TRUE(
            tells(status, Code::closed, {"rank 0 has failed in its step at node 'y' (Relu)"}));
      }
    });
  }
}

TEST(Ways, NameARankThatLeaves) {
  for (const EdgeWay way : kWays)
    for (const char* fabric : {"shm", "tcp"}) {
      Meeting meeting(2);
      run_on(2, tests::settings().with(Setting::fabric, fabric), [&](World& world) {
        {
          Executor executor(world, one_edge(false), reference_kernels(), {.way = way});
          meeting.wait();
          if (world.rank() == 1) {
            const Status status =
                executor.run({}, Deadline::after(std::chrono::seconds(15))).status();
            EXPECT_FALSE(status.ok());
            EXPECT_NE(status.code(), Code::timeout);
            EXPECT_EQ(status.detail().peer, 0) << status.text();
            EXPECT_NE(status.text().find("edge y:0 from rank 0 "), std::string::npos)
                << status.text();
          }
        }
        (void)world.leave();
      });
    }
}

/// Rank 0 has run its steps before rank 1 begins.
TEST(Ways, BringTheLastTensorsOfARankThatHasEnded) {
  for (const EdgeWay way : kWays)
    for (const bool is_dynamic : {false, true})
      run_on(2, [&](World& world) {
        Executor executor(world, one_edge(is_dynamic), reference_kernels(), {.way = way});
        if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(100));
        Tensors feeds;
        if (world.rank() == 0) {
          feeds["x"] = executor.feed("x", {1000, 3});
          fill_at_random(feeds["x"], 1);
        }
        const auto fetched = executor.run(feeds);
        ASSERT_TRUE(fetched.ok()) << int(way) << ": " << fetched.status().text();
      });
}

TEST(Ways, NameTheRankThatLacksMemory) {
  Meeting meeting(2);
  run_on(2, tests::settings().with(Setting::arena_max, "16m"), [&](World& world) {
    Graph graph;
    graph.place_next({0});
    const TensorId x = graph.feed("x", DType::f32, {kAnySize});
    graph.place_next({1});
    graph.fetch(graph.add("Relu", {x}), "out");
    Executor executor(world, graph, reference_kernels(), {.way = EdgeWay::slots});
    Tensors feeds;
    if (world.rank() == 0) feeds["x"] = executor.feed("x", {1'000'000});
    std::vector<Tensor> rest;
    try {
      while (world.rank() == 1) rest.push_back(world.allocate(DType::u8, {1 << 20}));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::exhausted);
    }
    meeting.wait();
    const Status status = executor.run(feeds).status();
    if (world.rank() == 1)
      EXPECT_TRUE(tells(status, Code::exhausted, {"x:0"}));
    else
      EXPECT_TRUE(tells(status, Code::closed, {"rank 1 has failed in its step", "x:0"}));
    meeting.wait();
  });
}

}  // namespace
}  // namespace weft::dataflow
