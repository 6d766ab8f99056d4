// The queue: threads that help, probes of transfers, and waits that cost no processor time.
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

using tests::run_on;
using tests::settings;

const Attributes kTwoNumbers{{"dtype", "f32"}, {"shape", Sizes{2}}};

/// Rank 0 waits for `transfers` tensors of rank 1, while it has `layers` layers of nodes to run,
/// each of which is ready once the one before has ended.
Graph layers_beside_transfers(int layers, int width, int transfers) {
  Graph graph;
  for (int i = 0; i < transfers; ++i) {
    graph.place_next({1});
    const TensorId late = graph.add("weft.Fill", {}, kTwoNumbers, "late" + std::to_string(i));
    graph.fetch(late, "from 1, " + std::to_string(i), {0});
  }
  graph.place_next({0});
  std::vector<NodeId> before;
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<NodeId> nodes;
    for (int i = 0; i < width; ++i) {
      nodes.push_back(graph.add("weft.Fill", {}, kTwoNumbers).node);
      for (const NodeId earlier : before) graph.run_after(nodes.back(), earlier);
    }
    before = nodes;
  }
  return graph;
}

/// Layers, width, transfers, threads, way.
using Turns = std::tuple<int, int, int, int, EdgeWay>;
class ProbesByTurns : public testing::TestWithParam<Turns> {};

/// A turn takes each node of a layer once, and looks at each transfer at most once. While other
/// threads run nodes, a turn may be as short as one node.
TEST_P(ProbesByTurns, AreAtMostOneOfEachTransfer) {
  const auto [layers, width, transfers, threads, way] = GetParam();
  const Graph graph = layers_beside_transfers(layers, width, transfers);
  const int nodes = layers * width;
  std::atomic<int> done{0};
  run_on(2, [&, turns = std::uint64_t(layers)](World& world) {
    Kernels kernels;
    kernels.add("weft.Fill", [&](KernelCall& call) {
      static_cast<void>(call.output(0));
      if (call.node().starts_with("late"))
        EXPECT_TRUE(tests::soon([&] { return done == nodes; }));
      else
        ++done;
    });
    Executor executor(world, graph, kernels, {.threads = threads, .way = way});
    EXPECT_TRUE(executor.run().ok());
    if (world.rank() != 0) return;
    const ExecutorReport report = executor.report();
    SCOPED_TRACE(report.text());
    const std::uint64_t most = threads == 0 ? turns : std::uint64_t(nodes);
    for (const EdgeActivity& edge : report.edges) {
      // Each of the other transfers' arrivals may be one more turn.
      EXPECT_LE(edge.probes, most + std::uint64_t(transfers)) << edge.edge.name;
      if (threads == 0 && turns > 1) {
        EXPECT_GE(edge.probes, turns - 1) << "with other nodes to run it looks";
      }
    }
    EXPECT_EQ(report.counters.nodes, std::uint64_t(nodes + 2 * transfers));
  });
}

INSTANTIATE_TEST_SUITE_P(Of, ProbesByTurns,
                         testing::Combine(testing::Values(1, 20), testing::Values(1, 8),
                                          testing::Values(1, 5), testing::Values(0, 2),
                                          testing::Values(EdgeWay::views, EdgeWay::slots,
                                                          EdgeWay::rendezvous)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_layers_of_" +
                                  std::to_string(std::get<1>(info.param)) + "_" +
                                  std::to_string(std::get<2>(info.param)) + "_transfers_" +
                                  std::to_string(std::get<3>(info.param)) + "_threads_way_" +
                                  std::to_string(int(std::get<4>(info.param)));
                         });

TEST(Queue, RunsNodesSideBySideOnTheExecutorsThreads) {
  constexpr int kNodes = 3;
  run_on(1, [&](World& world) {
    Graph graph;
    graph.place_next({0});
    for (int i = 0; i < kNodes; ++i) graph.add("weft.Fill", {}, kTwoNumbers);
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

/// While one thread runs "first", the other waits for the network. The two nodes that follow can
/// only meet if it is woken for one of them; rank 1 sends after they have met.
TEST(Queue, WakesAThreadThatWaitsForTheNetworkForANodeThatIsReady) {
  for (const EdgeWay way : {EdgeWay::views, EdgeWay::slots, EdgeWay::rendezvous}) {
    Graph graph;
    graph.place_next({1});
    const TensorId late = graph.add("weft.Fill", {}, kTwoNumbers, "late");
    graph.fetch(late, "from 1", {0});
    graph.place_next({0});
    const NodeId first = graph.add("weft.Fill", {}, kTwoNumbers, "first").node;
    for (const char* name : {"left", "right"})
      graph.run_after(graph.add("weft.Fill", {}, kTwoNumbers, name).node, first);
    std::atomic<int> begun{0};
    std::atomic<int> met{0};
    run_on(2, [&](World& world) {
      Executor* waiting = nullptr;
      Kernels kernels;
      kernels.add("weft.Fill", [&](KernelCall& call) {
        static_cast<void>(call.output(0));
        if (call.node() == "late") {
          EXPECT_TRUE(tests::soon([&] { return met == 2; }));
        } else if (call.node() == "first") {
          EXPECT_TRUE(tests::soon([&] { return waiting->counters().sleeps > 0; }))
              << "the other thread waits for the network";
        } else {
          ++begun;
          met += tests::soon([&] { return begun == 2; }) ? 1 : 0;
        }
      });
      Executor executor(world, graph, kernels, {.threads = 1, .way = way});
      waiting = &executor;
      EXPECT_TRUE(executor.run().ok());
    });
    EXPECT_EQ(met, 2) << int(way);
  }
}

/// All threads of the process count: both ranks, their helpers, and their progress threads.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) / 1e9;
}

/// One thread that polled all the time would take as much as the wait; other programs on the
/// machine take none of this process' time.
TEST(Queue, NeedsNoProcessorTimeWhileNothingIsReady) {
  using std::chrono::milliseconds;
  for (const auto& [fabric, way] :
       {std::pair("shm", EdgeWay::views), std::pair("tcp", EdgeWay::slots),
        std::pair("shm", EdgeWay::rendezvous)}) {
    tests::Meeting meeting(2);
    run_on(2, settings().with(Setting::fabric, fabric), [&](World& world) {
      Executor executor(world, one_edge(false), reference_kernels(), {.threads = 2, .way = way});
      ASSERT_TRUE(executor.run(feeds_of(executor, world.rank(), 0)).ok());
      const Tensors feeds = feeds_of(executor, world.rank(), 1);
      meeting.wait();
      if (world.rank() == 0) {
        std::this_thread::sleep_for(milliseconds(50));  // rank 1 has begun to wait
        const double before = processor_seconds();
        std::this_thread::sleep_for(milliseconds(500));
        EXPECT_LT(processor_seconds() - before, 0.1) << fabric << ", way " << int(way);
      }
      EXPECT_TRUE(executor.run(feeds).ok());
    });
  }
}

}  // namespace
}  // namespace weft::dataflow
