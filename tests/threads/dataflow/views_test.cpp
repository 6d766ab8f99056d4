// Viewed edges: nothing is moved, nothing torn, and no producer goes too far ahead.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "tests/support/soon.hpp"
#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

using std::chrono::milliseconds;
using tests::Meeting;
using tests::run_on;
using tests::tells;

constexpr auto kSoon = milliseconds(200);
constexpr auto kLong = std::chrono::seconds(15);

/// A feed or variable "x" on rank 0, which "reader" on rank 1 reads; nothing comes back.
Graph one_way(bool is_variable) {
  Graph graph;
  graph.place_next({0});
  const TensorId x =
      is_variable ? graph.variable("x", DType::f32, {1000}) : graph.feed("x", DType::f32, {1000});
  graph.place_next({1});
  graph.fetch(graph.add("Relu", {x}, {}, "reader"), "out");
  return graph;
}

void fill(const Tensor& tensor, float value) { std::ranges::fill(tensor.as<float>(), value); }

/// All elements' one value; -1 if they differ.
float value_of(const Tensor& tensor) {
  const auto all = tensor.as<float>();
  return std::ranges::all_of(all, [&](float one) { return one == all[0]; }) ? all[0] : -1;
}

/// "Relu" copies its input slowly, so that a write in between shows.
Kernels slow_readers(milliseconds pause) {
  Kernels kernels = {};
  kernels.add("Relu", [pause](KernelCall& call) {
    const auto from = call.input(0).as<float>();
    const auto to = call.output(0).as<float>();
    const std::size_t half = from.size() / 2;
    std::copy_n(from.begin(), half, to.begin());
    std::this_thread::sleep_for(pause);
    std::copy(from.begin() + std::ptrdiff_t(half), from.end(), to.begin() + std::ptrdiff_t(half));
  });
  return kernels;
}

const EdgeActivity& edge_of(const ExecutorReport& report) { return report.edges.at(0); }

TEST(Views, TellTheirCostsAtEitherEnd) {
  constexpr std::uint64_t kSteps = 4;
  run_on(2, [&](World& world) {
    Executor executor(world, one_edge(false), reference_kernels());
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      if (world.rank() == 0) std::this_thread::sleep_for(milliseconds(20));
      ASSERT_TRUE(executor.run(feeds_of(executor, world.rank(), int(step))).ok());
    }
    const ExecutorReport report = executor.report();
    SCOPED_TRACE(report.text());
    const EdgeActivity& one = edge_of(report);
    EXPECT_EQ(one.edge.kind, EdgeKind::viewed);
    EXPECT_EQ(one.role, world.rank() == 0 ? Role::publishes : Role::views);
    EXPECT_EQ(one.fabric, "shm");
    EXPECT_EQ(one.counters.transfers, kSteps);
    EXPECT_EQ(one.counters.bytes_moved, 0U);
    EXPECT_EQ(one.counters.bytes_copied, 0U);
    EXPECT_EQ(one.counters.registrations, 0U);
    EXPECT_EQ(one.counters.credit_writes, world.rank() == 0 ? 0 : kSteps) << "nothing comes back";
    if (world.rank() == 1) {
      EXPECT_GE(one.wait, milliseconds(20)) << "the producer was late";
    }
    EXPECT_NE(report.json().find("\"kind\": \"viewed\""), std::string::npos);
    EXPECT_NE(report.text().find(world.rank() == 0 ? "publishes y:0" : "views y:0"),
              std::string::npos);
  });
}

TEST(Views, AreOfTwoBuffersThatTheKernelFillsItself) {
  std::set<const void*> buffers;
  run_on(2, [&](World& world) {
    Kernels kernels;
    kernels.add("Relu", [&](KernelCall& call) { buffers.insert(call.output(0).data()); });
    kernels.add("weft.Scale", [](KernelCall& call) { static_cast<void>(call.output(0)); });
    Executor executor(world, one_edge(false), kernels);
    for (int step = 0; step < 5; ++step)
      ASSERT_TRUE(executor.run(feeds_of(executor, world.rank(), step)).ok());
    EXPECT_EQ(edge_of(executor.report()).counters.bytes_copied, 0U);
  });
  EXPECT_EQ(buffers.size(), 2U);
}

TEST(Views, AreNoneWhereRanksShareNoMemory) {
  run_on(2, tests::settings().with(Setting::fabric, "tcp"), [](World& world) {
    const Executor executor(world, one_edge(false), reference_kernels());
    EXPECT_EQ(executor.plan().edges[0].kind, EdgeKind::fixed);
    EXPECT_NE(executor.plan().edges[0].why.find("the ranks share no memory"), std::string::npos);
  });
}

TEST(Views, StandBesideSendsOfTheSameTensor) {
  Graph graph;
  graph.place_next({0});
  const TensorId y = graph.add("Tanh", {graph.feed("x", DType::f32, {4})}, {}, "y");
  graph.place_next({1});
  graph.fetch(graph.add("Relu", {y}), "views");
  graph.place_next({2});
  // A tensor that is passed on can't be viewed.
  const TensorId alias = graph.add("Reshape", {y}, {{"shape", Sizes{2, 2}}}, "alias");
  graph.place_next({3});
  graph.fetch(graph.add("Relu", {alias}), "gets");
  std::mutex mutex;
  std::map<std::string, std::string> seen;
  run_on(4, [&](World& world) {
    Executor executor(world, graph, reference_kernels());
    EXPECT_EQ(executor.plan().edges[0].kind, EdgeKind::viewed);
    EXPECT_EQ(executor.plan().edges[1].kind, EdgeKind::fixed);
    EXPECT_EQ(executor.plan().parts[0].memory.sent, 0U) << "it is sent from where it is viewed";
    for (int step = 0; step < 5; ++step) {
      const auto fetched = executor.run(feeds_of(executor, world.rank(), step));
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
      const std::lock_guard lock(mutex);
      for (const auto& [name, tensor] : *fetched)
        seen[name].append(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
    }
    for (const EdgeActivity& one : executor.report().edges)
      EXPECT_EQ(one.counters.bytes_copied, 0U) << one.edge.name;
  });
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen["views"], seen["gets"]);
}

/// A tensor and its alias have one memory, which the first of their sends publishes.
TEST(Views, OfATensorAndItsAliasShareASlot) {
  Graph graph;
  graph.place_next({0});
  const TensorId y = graph.add("Tanh", {graph.feed("x", DType::f32, {1000})}, {}, "y");
  const TensorId alias = graph.add("Reshape", {y}, {{"shape", Sizes{10, 100}}}, "alias");
  for (const int rank : {1, 2}) {
    graph.place_next({rank});
    graph.fetch(graph.add("Relu", {rank == 1 ? y : alias}), "out" + std::to_string(rank));
  }
  run_on(3, [&](World& world) {
    Kernels kernels = slow_readers(milliseconds(world.rank() == 1 ? 10 : 0));
    kernels.add("Tanh",
                [step = 0](KernelCall& call) mutable { fill(call.output(0), float(++step)); });
    Executor executor(world, graph, kernels);
    for (const Edge& edge : executor.plan().edges) EXPECT_EQ(edge.kind, EdgeKind::viewed);
    for (int step = 1; step <= 10; ++step) {
      const auto fetched = executor.run(feeds_of(executor, world.rank(), step));
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
      for (const auto& [name, tensor] : *fetched) EXPECT_EQ(value_of(tensor), float(step)) << name;
    }
    if (world.rank() == 0) {
      for (const EdgeActivity& one : executor.report().edges)
        EXPECT_EQ(one.counters.transfers, 10U) << "of both";
    }
  });
}

/// The producer's step ends once the slow reader has ended, so that its feed or variable may be
/// written then.
void write_between_steps(bool is_variable, bool in_own_memory) {
  constexpr int kSteps = 5;
  run_on(2, [&](World& world) {
    Executor executor(world, one_way(is_variable), slow_readers(milliseconds(20)));
    const Edge& edge = executor.plan().edges[0];
    ASSERT_EQ(edge.kind, EdgeKind::viewed);
    EXPECT_EQ(edge.why_credits, "'reader' may still read when rank 0's step ends");
    const Tensor own = world.allocate(DType::f32, {1000});
    for (int step = 1; step <= kSteps; ++step) {
      Tensors feeds;
      if (world.rank() == 0) {
        const Tensor x = is_variable ? executor.variable("x") : executor.feed("x");
        const Tensor& written = in_own_memory ? own : x;
        fill(written, float(step));
        if (!is_variable) feeds["x"] = written;
      }
      const auto fetched = executor.run(feeds);
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
      if (world.rank() == 1) {
        EXPECT_EQ(value_of(fetched->at("out")), float(step));
      }
    }
    EXPECT_EQ(edge_of(executor.report()).counters.bytes_copied,
              in_own_memory && world.rank() == 0 ? kSteps * 4000U : 0U);
  });
}

TEST(Views, OfAFeedHaveEndedWhenTheStepEnds) { write_between_steps(false, false); }
TEST(Views, OfAFeedInOtherMemoryAreOfACopy) { write_between_steps(false, true); }
TEST(Views, OfAVariableHaveEndedWhenTheStepEnds) { write_between_steps(true, false); }

TEST(Views, KeepTheMemoryOfFeedsAndVariables) {
  for (const bool is_variable : {false, true})
    run_on(2, [&](World& world) {
      Executor executor(world, one_way(is_variable), slow_readers({}));
      std::set<const void*> places;
      for (int step = 0; step < 3; ++step) {
        Tensors feeds;
        if (world.rank() == 0) {
          const Tensor x = is_variable ? executor.variable("x") : executor.feed("x");
          if (is_variable && step == 0) {
            EXPECT_EQ(value_of(x), 0) << "zeros at first";
          }
          places.insert(x.data());
          if (!is_variable) feeds["x"] = x;
        }
        ASSERT_TRUE(executor.run(feeds).ok());
      }
      EXPECT_EQ(places.size(), world.rank() == 0 ? 1U : 0U);
    });
}

/// Two buffers: rank 0 computes its second tensor while rank 1 still reads the first, but publishes
/// it only then, and computes no third one before.
TEST(Views, LetAProducerRunOneStepAhead) {
  std::atomic<int> computed{0};
  std::atomic<bool> may_read{false};
  std::atomic<int> wrong{0};
  run_on(2, [&](World& world) {
    Kernels kernels;
    kernels.add("Relu", [&](KernelCall& call) { fill(call.output(0), float(++computed)); });
    kernels.add("weft.Scale", [&, step = 0](KernelCall& call) mutable {
      EXPECT_TRUE(tests::soon([&] { return may_read.load(); }));
      wrong += value_of(call.input(0)) == float(++step) ? 0 : 1;
      fill(call.output(0), 0);
    });
    Executor executor(world, one_edge(false), kernels);
    if (world.rank() == 0) {
      ASSERT_TRUE(executor.run(feeds_of(executor, 0, 0)).ok());
      std::thread later([&] {
        EXPECT_TRUE(tests::soon([&] { return computed == 2; })) << "while the first is read";
        std::this_thread::sleep_for(milliseconds(50));
        EXPECT_EQ(computed, 2);
        may_read = true;
      });
      for (int step = 1; step < 10; ++step)
        EXPECT_TRUE(executor.run(feeds_of(executor, 0, step)).ok());
      later.join();
    } else {
      for (int step = 0; step < 10; ++step) ASSERT_TRUE(executor.run().ok());
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Views, NameNodeEdgeAndReaderThatLagsAtTheDeadline) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Executor executor(world, one_edge(false), reference_kernels());
    if (world.rank() == 0) {
      ASSERT_TRUE(executor.run(feeds_of(executor, 0, 0)).ok()) << "the first has a buffer";
      const Status status = executor.run(feeds_of(executor, 0, 1), Deadline::after(kSoon)).status();
      EXPECT_TRUE(tells(status, Code::timeout,
                        {"waiting for node 'send y:0 to 1'", "edge y:0 from rank 0 to 1"}));
      EXPECT_EQ(status.detail().peer, 1);
    }
    meeting.wait();
  });
}

TEST(Views, NameAReaderThatLeaves) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    {
      Executor executor(world, one_edge(false), reference_kernels());
      if (world.rank() == 0) {
        ASSERT_TRUE(executor.run(feeds_of(executor, 0, 0)).ok());
        meeting.wait();
        const auto begin = std::chrono::steady_clock::now();
        const Status status =
            executor.run(feeds_of(executor, 0, 1), Deadline::after(kLong)).status();
        EXPECT_TRUE(tells(status, Code::peer_left,
                          {"'send y:0 to 1'", "edge y:0 from rank 0 to 1", "rank 1"}));
        EXPECT_EQ(status.detail().peer, 1);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
      } else {
        meeting.wait();
      }
    }
    (void)world.leave(Deadline::after(kLong));
  });
}

/// Rank 0 has run its steps, and its memory stays until rank 1 has run its own.
TEST(Views, OfTheLastStepOutlastTheProducersSteps) {
  constexpr int kSteps = 3;
  run_on(2, [&](World& world) {
    Executor executor(world, one_edge(false), reference_kernels());
    for (int step = 0; step < kSteps; ++step) {
      if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(100));
      const auto fetched = executor.run(feeds_of(executor, world.rank(), step));
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
    }
  });
}

TEST(Views, EndAProducersWaitAtItsEndIfTheReaderEndsFirst) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    const auto begin = std::chrono::steady_clock::now();
    {
      Executor executor(world, one_edge(false), reference_kernels());
      if (world.rank() == 0) {
        ASSERT_TRUE(executor.run(feeds_of(executor, 0, 0)).ok());
      }
      meeting.wait();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  });
}

TEST(Views, WaitForAReaderUntilTheTimeoutAtMost) {
  Meeting meeting(2);
  run_on(2, tests::settings().with(Setting::timeout, "300ms"), [&](World& world) {
    auto executor = std::make_unique<Executor>(world, one_edge(false), reference_kernels());
    if (world.rank() == 0) {
      ASSERT_TRUE(executor->run(feeds_of(*executor, 0, 0)).ok());
      const auto begin = std::chrono::steady_clock::now();
      executor.reset();
      const auto took = std::chrono::steady_clock::now() - begin;
      EXPECT_GE(took, milliseconds(250)) << "rank 1 might still have viewed it";
      EXPECT_LT(took, std::chrono::seconds(5));
    }
    meeting.wait();
  });
}

/// The memory is the application's again once run() has returned, even with an error.
TEST(Views, FailAReaderWhoseTensorMayHaveBeenOverwritten) {
  for (const bool is_variable : {false, true})
    for (const int threads : {0, 2}) {
      Meeting meeting(2);
      run_on(2, [&](World& world) {
        Kernels kernels;
        kernels.add("Relu", [&](KernelCall& call) {
          const auto from = call.input(0).as<float>();
          meeting.wait();
          meeting.wait();
          std::ranges::copy(from, call.output(0).as<float>().begin());
        });
        Executor executor(world, one_way(is_variable), kernels, {.threads = threads});
        if (world.rank() == 1) {
          const auto step = executor.run({}, Deadline::after(kLong));
          EXPECT_TRUE(tells(step.status(), Code::closed, {"rank 0"}));
          return;
        }
        const Tensor x = is_variable ? executor.variable("x") : executor.feed("x");
        fill(x, 1);
        const Tensors feeds = is_variable ? Tensors{} : Tensors{{"x", x}};
        const auto step = executor.run(feeds, Deadline::after(kSoon));
        EXPECT_EQ(step.status().code(), Code::timeout) << step.status().text();
        fill(x, 99);
        meeting.wait();
        meeting.wait();
      });
    }
}

/// A reader that has read the last step's tensor is not needed by the others.
TEST(Views, AreReadByAllThoughOneHasLeft) {
  for (const bool is_variable : {false, true})
    for (const int quick : {1, 2}) {
      Meeting meeting(3);
      run_on(3, [&](World& world) {
        Graph graph;
        graph.place_next({0});
        const TensorId x = is_variable ? graph.variable("x", DType::f32, {1000})
                                       : graph.feed("x", DType::f32, {1000});
        for (const int rank : {1, 2}) {
          graph.place_next({rank});
          graph.fetch(graph.add("Relu", {x}), "out" + std::to_string(rank));
        }
        const bool is_slow = world.rank() == 3 - quick;
        Executor executor(world, graph, slow_readers(is_slow ? kSoon : milliseconds(0)));
        Tensors feeds;
        if (world.rank() == 0 && !is_variable) feeds["x"] = executor.feed("x");
        for (int step = 0; step < 3; ++step) {
          meeting.wait();
          const auto ended = executor.run(feeds, Deadline::after(kLong));
          ASSERT_TRUE(ended.ok()) << ended.status().text();
        }
        if (world.rank() == quick) (void)world.leave(Deadline::after(kLong));
      });
    }
}

}  // namespace
}  // namespace weft::dataflow
