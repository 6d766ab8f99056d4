// Steps: equal bits for all placements, the cost of transfers, and the queue.
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

using tests::all_counters;
using tests::Meeting;
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

/// Runs some steps and returns what those from step 2 on cost all ranks together.
TransferCounters cost_of(int ranks, const Graph& graph, SentMemory sent, int steps,
                         const char* fabric = "shm", EdgeWay way = EdgeWay::slots) {
  TransferCounters all;
  std::mutex mutex;
  Meeting meeting(ranks);
  run_on(ranks, settings().with(Setting::fabric, fabric), [&](World& world) {
    Executor executor(world, graph, reference_kernels(), {.sent = sent, .way = way});
    start_variables(executor, world.rank());
    const auto step = [&](int n) {
      Tensors feeds;
      for (const Node& node : executor.plan().parts[std::size_t(world.rank())].graph.nodes())
        if (node.definition->name == "weft.Feed") {
          feeds[node.name] = node.outputs[0].shape.known()
                                 ? executor.feed(node.name)
                                 : executor.feed(node.name, {500 + n % 3, 3});
          fill_at_random(feeds[node.name], std::uint64_t(n));
        }
      executor.run(feeds).value();
    };
    step(0);
    meeting.wait();
    const TransferCounters before = all_counters(world);
    meeting.wait();
    for (int n = 1; n <= steps; ++n) step(n);
    const TransferCounters cost = all_counters(world) - before;
    meeting.wait();
    const std::lock_guard lock(mutex);
    all += cost;
  });
  return all;
}

TEST(Steps, CostOneWorkRequestForEachStaticTransferAndNothingElse) {
  const Replicas replicas = replicate(training_model(), {.workers = {1, 2}, .servers = {0}});
  const Plan plan = partition(replicas.graph, {.ranks = 3});
  std::uint64_t bytes = 0;
  for (const Edge& edge : plan.edges) {
    ASSERT_EQ(edge.kind, EdgeKind::fixed);
    bytes += edge.bytes;
  }
  constexpr std::uint64_t kSteps = 10;
  for (const char* fabric : {"shm", "tcp"}) {
    const TransferCounters cost = cost_of(3, replicas.graph, SentMemory::arena, kSteps, fabric);
    EXPECT_EQ(cost.bytes_copied, 0U) << fabric;
    EXPECT_EQ(cost.registrations, 0U) << fabric;
    EXPECT_EQ(cost.control_messages, 0U) << fabric;
    EXPECT_EQ(cost.credit_writes, 0U) << fabric << ", the loop proves that none are needed";
    EXPECT_EQ(cost.work_requests, kSteps * plan.edges.size()) << fabric;
    EXPECT_EQ(cost.bytes_moved, 2 * kSteps * bytes) << fabric << ", counted at both ends";
  }
}

TEST(Steps, CostNothingButALookAtEachViewedTensor) {
  const Replicas replicas = replicate(training_model(), {.workers = {1, 2}, .servers = {0}});
  const Plan plan = partition(replicas.graph, {.ranks = 3, .hosts = {0, 0, 0}});
  for (const Edge& edge : plan.edges) {
    EXPECT_EQ(edge.kind, EdgeKind::viewed) << edge.name << ": " << edge.why;
    EXPECT_FALSE(edge.needs_credits) << edge.name << ": " << edge.why_credits;
  }
  constexpr std::uint64_t kSteps = 10;
  const TransferCounters cost =
      cost_of(3, replicas.graph, SentMemory::arena, kSteps, "shm", EdgeWay::views);
  EXPECT_EQ(cost.bytes_moved, 0U);
  EXPECT_EQ(cost.bytes_copied, 0U);
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_EQ(cost.control_messages, 0U);
  EXPECT_EQ(cost.credit_writes, 0U);
  EXPECT_EQ(cost.work_requests, kSteps * plan.edges.size());
}

TEST(Steps, CostTwoWorkRequestsForEachDynamicTransfer) {
  constexpr std::uint64_t kSteps = 9;
  const TransferCounters cost = cost_of(2, one_edge(true), SentMemory::arena, kSteps);
  EXPECT_EQ(cost.bytes_copied, 0U);
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_EQ(cost.control_messages, 0U);
  EXPECT_EQ(cost.work_requests, 2 * kSteps);
}

TEST(Steps, CopyWhatIsSentFromPlainMemory) {
  constexpr std::uint64_t kSteps = 9;
  const TransferCounters cost = cost_of(2, one_edge(false), SentMemory::plain, kSteps);
  EXPECT_EQ(cost.bytes_copied, kSteps * 3000 * sizeof(float));
  EXPECT_EQ(cost.work_requests, kSteps);
}

/// Rank 0 waits for rank 1, which sends late, while many nodes of rank 0 are ready.
TEST(Steps, ProbeATransferAtMostOncePerTurnOfTheQueue) {
  constexpr int kNodes = 100;
  Graph graph;
  graph.place_next({1});
  const TensorId late = graph.add("weft.Fill", {}, {{"dtype", "f32"}, {"shape", Sizes{2}}}, "late");
  graph.place_next({0});
  graph.fetch(late, "from 1", {0});
  for (int i = 0; i < kNodes; ++i)
    graph.add("weft.Fill", {}, {{"dtype", "f32"}, {"shape", Sizes{2}}}, "own" + std::to_string(i));
  std::atomic<int> done{0};
  run_on(2, [&](World& world) {
    Kernels kernels;
    kernels.add("weft.Fill", [&](KernelCall& call) {
      static_cast<void>(call.output(0));
      if (call.node() != "late")
        ++done;
      else
        (void)tests::soon([&] { return done == kNodes; });
    });
    Executor executor(world, graph, kernels);
    EXPECT_TRUE(executor.run().ok());
    if (world.rank() != 0) return;
    // All nodes of one turn are ready at once, so that there is one turn, and the rest is waiting.
    EXPECT_LE(executor.counters().probes, 2U);
    EXPECT_GE(executor.counters().sleeps, 1U);
    EXPECT_EQ(executor.counters().nodes, kNodes + 2U);
  });
}

TEST(Steps, RunNodesSideBySideOnTheExecutorsThreads) {
  constexpr int kNodes = 3;
  run_on(1, [&](World& world) {
    Graph graph;
    graph.place_next({0});
    for (int i = 0; i < kNodes; ++i)
      graph.add("weft.Fill", {}, {{"dtype", "f32"}, {"shape", Sizes{2}}});
    std::atomic<int> begun{0};
    std::atomic<int> met{0};
    Kernels kernels;
    kernels.add("weft.Fill", [&](KernelCall& call) {
      static_cast<void>(call.output(0));
      ++begun;
      met += tests::soon([&] { return begun == kNodes; }) ? 1 : 0;
    });
    Executor executor(world, graph, kernels, {.threads = kNodes - 1});
    EXPECT_TRUE(executor.run().ok());
    EXPECT_EQ(met, kNodes);
  });
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) / 1e9;
}

TEST(Steps, NeedNoProcessorTimeWhileNothingIsReady) {
  run_on(2, [&](World& world) {
    Kernels kernels = reference_kernels();
    Executor executor(world, one_edge(false), kernels);
    if (world.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      EXPECT_TRUE(executor.run(feeds_of(executor, 0, 0)).ok());
    } else {
      const double before = processor_seconds();
      EXPECT_TRUE(executor.run().ok());
      EXPECT_LT(processor_seconds() - before, 0.1);
    }
  });
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

}  // namespace
}  // namespace weft::dataflow
