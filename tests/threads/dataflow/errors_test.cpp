// Bad input, and failures within a step: each is an error that names node, edge and rank.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/errors.hpp"
#include "tests/support/gpu_memory.hpp"
#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

using std::chrono::milliseconds;
using tests::run_on;
using tests::tells;
using tests::thrown_by;

TEST(ExecutorStart, NamesNodeAndDefinitionWithoutAKernelOnEveryRank) {
  run_on(2, [](World& world) {
    Kernels kernels;
    kernels.add("Relu", [](KernelCall&) {});
    const ErrorDetail error =
        thrown_by([&] { const Executor executor(world, one_edge(false), kernels); });
    EXPECT_TRUE(tells(error, Code::bad_argument,
                      {"'z'", "weft.Scale", "host memory", "rank 1", "weft::operators has one"}));
  });
}

TEST(ExecutorStart, SaysWhichLibraryHasAMissingKernel) {
  Definitions definitions = Definitions::standard();
  definitions.add({.name = "my.Own", .outputs = {{"Y"}}, .infer = [](const Inference&) {
                     return std::vector<TensorType>{{DType::f32, PartialShape{2}}};
                   }});
  const auto message = [](const Graph& graph) {
    std::string text;
    run_on(1, [&](World& world) {
      text = thrown_by([&] { const Executor executor(world, graph, Kernels()); }).message;
    });
    return text;
  };
  Graph own(definitions);
  own.place_next({0});
  own.add("my.Own", {}, {}, "node");
  EXPECT_EQ(message(own), "there is no kernel for node 'node' (my.Own) in host memory, on rank 0");
  Graph of_gpu;
  of_gpu.place_next({0, Memory::gpu});
  of_gpu.add("weft.Fill", {}, {{"dtype", "f32"}, {"shape", Sizes{2}}}, "node");
  EXPECT_EQ(message(of_gpu),
            "there is no kernel for node 'node' (weft.Fill) in gpu memory, on rank 0; the library "
            "weft::operators has one for host memory");
}

TEST(ExecutorStart, NamesTheFirstNodeThatDiffersBetweenRanks) {
  run_on(3, [](World& world) {
    Graph graph = one_edge(false);
    graph.place_next({0});
    graph.add("weft.Fill", {},
              {{"dtype", "f32"}, {"shape", Sizes{2}}, {"value", world.rank() == 2 ? 1.0 : 0.0}},
              "constant");
    const ErrorDetail error =
        thrown_by([&] { const Executor executor(world, graph, reference_kernels()); });
    EXPECT_TRUE(tells(error, Code::mismatch, {"constant", "rank 2"}));
  });
}

TEST(ExecutorStart, RefusesAPlanThatIsLargerThanTheArenas) {
  run_on(2, [](World& world) {
    const auto refused = [&](EdgeWay way) {
      return thrown_by([&] {
        const Executor executor(world, one_edge(false), reference_kernels(),
                                {.arena_bytes = 100, .way = way});
      });
    };
    EXPECT_TRUE(
        tells(refused(EdgeWay::slots), Code::exhausted, {"rank 0 needs 12000 bytes", "y:0"}));
    EXPECT_TRUE(
        tells(refused(EdgeWay::views), Code::exhausted, {"rank 0 needs 24000 bytes", "y:0"}));
  });
}

TEST(ExecutorStart, RefusesMoreEdgesThanARendezvousHasRequests) {
  constexpr int kEdges = 2049;
  Graph graph;
  std::vector<TensorId> made;
  graph.place_next({0});
  for (int i = 0; i < kEdges; ++i)
    made.push_back(graph.variable("v" + std::to_string(i), DType::f32, {1}));
  graph.place_next({1});
  for (int i = 0; i < kEdges; ++i)
    graph.add("weft.Scale", {made[i]}, {{"factor", 1.0}}, "s" + std::to_string(i));
  run_on(2, [&](World& world) {
    const ErrorDetail error = thrown_by([&] {
      const Executor executor(world, graph, reference_kernels(), {.way = EdgeWay::rendezvous});
    });
    EXPECT_TRUE(tells(error, Code::bad_argument, {"more than 2048 edges from rank 0 to rank 1"}));
  });
}

TEST(ExecutorStart, NamesARankWithAnotherWay) {
  run_on(3, [](World& world) {
    const EdgeWay way = world.rank() == 1 ? EdgeWay::slots : EdgeWay::views;
    const ErrorDetail error = thrown_by([&] {
      const Executor executor(world, one_edge(false), reference_kernels(), {.way = way});
    });
    EXPECT_TRUE(tells(error, Code::mismatch,
                      {world.rank() == 1 ? "rank 0" : "rank 1", "another ExecutorOptions::way"}));
  });
}

TEST(ExecutorStart, RefusesBadOptionsAndKernels) {
  run_on(1, [](World& world) {
    const Graph graph;
    for (const ExecutorOptions& options :
         {ExecutorOptions{.name = ""}, ExecutorOptions{.threads = -1},
          ExecutorOptions{.sent = static_cast<SentMemory>(9)},
          ExecutorOptions{.way = static_cast<EdgeWay>(9)}})
      EXPECT_EQ(thrown_by([&] { const Executor executor(world, graph, {}, options); }).code,
                Code::bad_argument);
    Kernels kernels;
    EXPECT_EQ(thrown_by([&] { kernels.add("Relu", {}); }).code, Code::bad_argument);
    kernels.add("Relu", [](KernelCall&) {});
    EXPECT_EQ(thrown_by([&] { kernels.add("Relu", [](KernelCall&) {}); }).code,
              Code::duplicate_name);
    EXPECT_EQ(kernels.find("Relu", Memory::gpu), nullptr);
  });
}

TEST(ExecutorRun, RefusesFeedsThatAreMissingUnknownOrOfAnotherTypeAndGoesOn) {
  run_on(1, [](World& world) {
    Graph graph;
    graph.place_next({0});
    const TensorId x = graph.feed("x", DType::f32, {kAnySize, 3});
    graph.fetch(graph.add("Relu", {x}), "y");
    Executor executor(world, graph, reference_kernels());
    const Tensor good = executor.feed("x", {2, 3});
    EXPECT_TRUE(tells(executor.run().status(), Code::bad_argument, {"'x'", "no tensor"}));
    EXPECT_TRUE(tells(executor.run({{"x", good}, {"q", good}}).status(), Code::bad_argument,
                      {"no feed 'q'"}));
    EXPECT_TRUE(tells(executor.run({{"x", world.allocate(DType::f64, {2, 3})}}).status(),
                      Code::mismatch, {"x", "f64"}));
    EXPECT_TRUE(tells(executor.run({{"x", world.allocate(DType::f32, {2, 4})}}).status(),
                      Code::mismatch, {"x", "[2, 4]"}));
    EXPECT_TRUE(tells(executor.run({{"x", Tensor::wrap(nullptr, DType::f32, {2, 3})}}).status(),
                      Code::bad_argument, {"x", "no memory"}));
    const tests::GpuMemory gpu;
    EXPECT_TRUE(tells(executor.run({{"x", gpu.tensor({2, 3})}}).status(), Code::bad_argument,
                      {"x", "lies on a GPU"}));
    EXPECT_EQ(thrown_by([&] { executor.feed("x"); }).code, Code::bad_argument);
    EXPECT_EQ(thrown_by([&] { executor.feed("x", {2, 2}); }).code, Code::mismatch);
    EXPECT_EQ(thrown_by([&] { executor.variable("x"); }).code, Code::bad_argument);
    EXPECT_TRUE(executor.run({{"x", good}}).ok());
  });
}

/// The status of a step of one node "y" with this kernel, on one rank.
Status step_with(const Kernel& kernel) {
  Status status;
  run_on(1, [&](World& world) {
    Graph graph;
    graph.place_next({0});
    graph.fetch(graph.add("Relu", {graph.feed("x", DType::f32, {kAnySize})}, {}, "y"), "out");
    Kernels kernels;
    kernels.add("Relu", kernel);
    Executor executor(world, graph, kernels);
    status = executor.run({{"x", executor.feed("x", {3})}}).status();
    EXPECT_EQ(executor.run({{"x", executor.feed("x", {3})}}).status().text(), status.text())
        << "the executor is over";
  });
  return status;
}

TEST(ExecutorRun, EndsWithTheNodeOfAKernelThatFails) {
  EXPECT_TRUE(tells(step_with([](KernelCall&) { throw std::runtime_error("no luck"); }),
                    Code::system, {"'y'", "Relu", "no luck"}));
  EXPECT_TRUE(tells(step_with([](KernelCall&) { throw 7; }), Code::system, {"'y'"}));
  EXPECT_TRUE(tells(step_with([](KernelCall&) {}), Code::bad_argument, {"'y'", "no output 0"}));
  EXPECT_TRUE(tells(step_with([](KernelCall& call) { call.output(0, DType::f64, {3}); }),
                    Code::mismatch, {"'y'", "f64[3]"}));
  EXPECT_TRUE(tells(step_with([](KernelCall& call) {
                      call.output(0, DType::f32, {3, 1});
                    }),
                    Code::mismatch, {"'y'", "[3, 1]"}));
  EXPECT_TRUE(tells(step_with([](KernelCall& call) { call.output(1); }), Code::bad_argument,
                    {"'y'", "no output 1"}));
}

/// 0 -> 1 -> 2: each rank waits for the one before it.
Graph chain() {
  Graph graph;
  graph.place_next({0});
  TensorId at = graph.add("Relu", {graph.feed("x", DType::f32, {4})}, {}, "first");
  graph.place_next({1});
  at = graph.add("Tanh", {at}, {}, "second");
  graph.place_next({2});
  graph.fetch(graph.add("Sigmoid", {at}, {}, "third"), "out");
  return graph;
}

/// Rank 0's kernel fails; then it leaves at once, or stays until the others have heard of it.
void end_the_others_steps(World& world, tests::Meeting& meeting, bool leaves) {
  Kernels kernels;
  kernels.add("Relu", [](KernelCall&) { throw std::runtime_error("no luck"); });
  for (const char* name : {"Tanh", "Sigmoid"})
    kernels.add(name, [](KernelCall& call) { call.output(0); });
  Executor executor(world, chain(), kernels);
  meeting.wait();
  const auto begin = std::chrono::steady_clock::now();
  Tensors feeds;
  if (world.rank() == 0) feeds = feeds_of(executor, 0, 0);
  const Status status = executor.run(feeds, Deadline::after(std::chrono::seconds(15))).status();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  if (world.rank() == 0) {
    EXPECT_TRUE(tells(status, Code::system, {"'first'", "no luck"}));
    if (!leaves) std::this_thread::sleep_for(milliseconds(300));
  } else {
    EXPECT_TRUE(tells(status, Code::closed, {"rank 0", "'first' (Relu)"}));
    EXPECT_EQ(status.detail().peer, 0);
    if (!leaves) {
      EXPECT_TRUE(tells(status, Code::closed, {"waiting for", "edge"}));
    }
  }
}

TEST(ExecutorStart, EndsBeforeAnyRankMayLeave) {
  for (int i = 0; i < 10; ++i)
    for (const char* fabric : {"shm", "tcp"})
      run_on(3, tests::settings().with(Setting::fabric, fabric),
             [](World& world) { const Executor executor(world, chain(), reference_kernels()); });
}

TEST(ExecutorRun, EndsTheOthersStepsIfAKernelFails) {
  tests::Meeting meeting(3);
  run_on(3, [&](World& world) { end_the_others_steps(world, meeting, false); });
}

TEST(ExecutorRun, TellsOfAFailedKernelThoughItsRankHasLeft) {
  tests::Meeting meeting(3);
  for (int i = 0; i < 5; ++i)
    for (const char* fabric : {"shm", "tcp"})
      run_on(3, tests::settings().with(Setting::fabric, fabric), [&](World& world) {
        end_the_others_steps(world, meeting, true);
        (void)world.leave(Deadline::after(std::chrono::seconds(5)));
      });
}

TEST(ExecutorRun, NamesItsOwnSlowNodeAtTheDeadline) {
  for (const int threads : {0, 2})
    run_on(1, [threads](World& world) {
      Graph graph;
      graph.place_next({0});
      const TensorId x = graph.feed("x", DType::f32, {3});
      graph.fetch(graph.add("Tanh", {graph.add("Relu", {x}, {}, "slow")}), "out");
      Kernels kernels;
      kernels.add("Relu", [](KernelCall& call) {
        call.output(0);
        std::this_thread::sleep_for(milliseconds(150));
      });
      kernels.add("Tanh", [](KernelCall& call) { call.output(0); });
      Executor executor(world, graph, kernels, {.threads = threads});
      const Status status =
          executor.run({{"x", executor.feed("x")}}, Deadline::after(milliseconds(50))).status();
      EXPECT_TRUE(tells(status, Code::timeout, {"node 'slow' (Relu) took 1"}));
    });
}

TEST(ExecutorRun, NamesNodeEdgeAndRankAtTheDeadline) {
  tests::Meeting meeting(3);
  run_on(3, [&](World& world) {
    Executor executor(world, chain(), reference_kernels());
    if (world.rank() != 0) {
      const Status status = executor.run({}, Deadline::after(milliseconds(200))).status();
      // Either of the two may be the first to give up, and tells the other.
      EXPECT_TRUE(status.code() == Code::timeout || status.code() == Code::closed);
      if (world.rank() == 1) {
        EXPECT_TRUE(tells(status, status.code(),
                          {"receive first:0 from 0", "edge first:0 from rank 0 to 1"}));
        EXPECT_EQ(status.detail().peer, 0);
      } else {
        EXPECT_TRUE(tells(status, status.code(), {"edge second:0 from rank 1 to 2"}));
      }
    }
    meeting.wait();
  });
}

/// Rank 1 finds out that rank 0 is dead; rank 2 has no edge with rank 0.
TEST(ExecutorRun, NamesARankThatDiesInTheStep) {
  tests::Meeting meeting(3);
  run_on(3, tests::settings().with(Setting::fabric, "tcp"), [&](World& world) {
    Executor executor(world, chain(), reference_kernels());
    meeting.wait();
    if (world.rank() != 0) {
      std::thread detector([&] {
        std::this_thread::sleep_for(milliseconds(world.rank() == 1 ? 100 : 0));
        if (world.rank() == 1) world.declare_dead(0, "the test gave it up");
      });
      const auto begin = std::chrono::steady_clock::now();
      const Status status = executor.run({}, Deadline::after(std::chrono::seconds(15))).status();
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
      detector.join();
      EXPECT_EQ(status.detail().peer, 0) << status.text();
      if (world.rank() == 1) {
        EXPECT_TRUE(tells(status, Code::peer_failed,
                          {"receive first:0 from 0", "edge first:0", "the test gave it up"}));
      } else {
        EXPECT_TRUE(tells(status, status.code(), {"because of rank 0", "edge second:0"}));
      }
    }
    meeting.wait();
  });
}

TEST(ExecutorRun, NamesARankThatLeavesInTheStep) {
  for (const char* fabric : {"shm", "tcp"}) {
    tests::Meeting meeting(3);
    run_on(3, tests::settings().with(Setting::fabric, fabric), [&](World& world) {
      {
        Executor executor(world, chain(), reference_kernels());
        meeting.wait();
        if (world.rank() != 0) {
          const Status status =
              executor.run({}, Deadline::after(std::chrono::seconds(15))).status();
          EXPECT_FALSE(status.ok());
          EXPECT_NE(status.code(), Code::timeout);
          EXPECT_EQ(status.detail().peer, 0) << status.text();
        }
      }
      (void)world.leave();
    });
  }
}

}  // namespace
}  // namespace weft::dataflow
