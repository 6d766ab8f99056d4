// Puts of several tensors in captured graphs: each replay gathers what they hold then.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cuda/slots/graphs.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

/// Two tensors on a GPU and one in host memory between them, as large as a slot of graph_spec().
struct Parts {
  static constexpr std::size_t kFirst = 1200;
  static constexpr std::size_t kSecond = 700;

  explicit Parts(World& world)
      : all{world.allocate(DType::f32, {kFirst}, Memory::gpu(0)),
            world.allocate(DType::f32, {kSecond}),
            world.allocate(DType::f32, {kInGraph - kFirst - kSecond}, Memory::gpu(0))} {}
  /// Elements of the slot's tensor: through `staging`, host memory that the stream copies from.
  void fill(World& world, float* staging, Stream stream) const {
    for (const std::size_t first : {std::size_t{0}, kFirst + kSecond}) {
      const Tensor& part = all[first == 0 ? 0 : 2];
      world.copy(Tensor::wrap(staging + first, DType::f32, part.shape()), part, stream);
    }
  }
  /// That of the part in host memory, at once.
  void fill_host(const float* staging) const {
    std::copy_n(staging + kFirst, kSecond, all[1].as<float>().begin());
  }

  std::vector<Tensor> all;
};

class GraphsGathered : public OnStandInStreams {
 protected:
  struct Exchange {
    std::size_t turns = 6;
    std::uint32_t depth = 2;
    bool by_graphs = true;
    std::uint64_t seed = 1;
    std::string chunk = "1m";
  };
  /// Rank 1 fills its tensors again and again and puts them together; rank 0's stream reads what
  /// comes. Returns that.
  static Seen exchange(Over fabric, const Exchange& how) {
    Seen seen;
    const auto body = [&](World& world) {
      if (world.rank() == 0) {
        Slot slot = world.expose(graph_spec(Memory::gpu(0), how.depth));
        OwnStream own(world, 0, kInGraph, 1);
        const auto take = [&] {
          Arrival arrival = slot.wait_on(own.get()).value();
          own.read(0, arrival.tensor());
          EXPECT_OK_STATUS(arrival.release(own.get()));
          own.synchronize();
          return own.elements(0);
        };
        meet(world, "put");
        (void)take();
        meet(world, "prepared");
        meet(world, "captured");
        for (std::size_t turn = 0; turn < how.turns; ++turn) seen.push_back(take());
        meet(world, "taken");
      } else {
        send(world, how);
      }
      meet(world);
    };
    run_over(fabric, body, how.seed, {{Setting::gpu_staging, how.chunk}});
    return seen;
  }
  static void refuses(const Status& status, const char* words) {
    EXPECT_TRUE(tells(status, Code::bad_argument, {words})) << status.text();
  }

 private:
  static void send(World& world, const Exchange& how) {
    const Parts parts(world);
    RemoteSlot remote = world.attach(0, graph_spec({}, how.depth));
    OwnStream own(world, 0, kInGraph, 1);
    // All is made, pinned and mapped before a stream waits: the stand-in takes the ranks' streams
    // for those of one process.
    remote.put(parts.all, own.get()).wait().or_throw();
    meet(world, "put");
    meet(world, "prepared");
    float step = 0;
    const auto next = [&] {
      const auto values = counted(kInGraph, step++);
      std::ranges::copy(values, own.host(0));
      parts.fill_host(own.host(0));
    };
    OwnGraph graph(own);
    graph.call(next);
    parts.fill(world, own.host(0), own.get());
    EXPECT_OK_STATUS(remote.put(parts.all, own.get()).wait_on(own.get()));
    graph.end();
    meet(world, "captured");
    for (std::size_t turn = 0; turn < how.turns; ++turn) {
      if (how.by_graphs) {
        graph.launch();
        continue;
      }
      next();
      parts.fill(world, own.host(0), own.get());
      EXPECT_OK_STATUS(remote.put(parts.all, own.get()).wait_on(own.get()));
      own.synchronize();
    }
    own.synchronize();
    meet(world, "taken");
  }
};

/// On a real driver, too.
class GraphsGatheredOnAnyDriver : public GraphsGathered {
 protected:
  void SetUp() override { OnGpus::SetUp(); }
};

TEST_F(GraphsGatheredOnAnyDriver, ReplayedAHundredTimesEqualAHundredSteps) {
  if (control() != nullptr) {
    ASSERT_EQ(control()->restart({.delay = std::chrono::microseconds(200)}),
              std::vector<std::string>{});
  }
  for (const std::uint32_t depth : {1U, 3U}) {
    SCOPED_TRACE(depth);
    const Seen steps = exchange(Over::shm, {.turns = 100, .depth = depth, .by_graphs = false});
    EXPECT_EQ(steps, all_counted(kInGraph, 100));
    EXPECT_EQ(exchange(Over::shm, {.turns = 100, .depth = depth}), steps);
  }
}

TEST_F(GraphsGathered, ArriveOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;
    SCOPED_TRACE(name_of(fabric));
    ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
    EXPECT_EQ(exchange(fabric, {}), all_counted(kInGraph, 6));
    EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

TEST_F(GraphsGathered, ArriveWhereTheyAreStagedWholeOrInChunks) {
  for (const Over fabric : {Over::shm, Over::tcp})
    for (const std::string chunk : {"1m", "4k"}) {
      SCOPED_TRACE(name_of(fabric) + " " + chunk);
      ASSERT_EQ(control()->restart(without_exports(options_for(fabric))),
                std::vector<std::string>{});
      EXPECT_EQ(exchange(fabric, {.chunk = chunk}), all_counted(kInGraph, 6));
      EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
    }
}

/// As many seeds as WEFT_TEST_STREAM_SEEDS says.
TEST_F(GraphsGathered, AreRightHoweverLateTheyAre) {
  const char* const wanted = std::getenv("WEFT_TEST_STREAM_SEEDS");
  const std::uint64_t seeds = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    stand_in::Options lazy{.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(2)};
    if (seed % 2 == 0) lazy = without_exports(lazy);
    ASSERT_EQ(control()->restart(lazy), std::vector<std::string>{});
    const auto depth = static_cast<std::uint32_t>(1 + seed % 3);
    ASSERT_EQ(exchange(Over::shm, {.depth = depth, .seed = seed}), all_counted(kInGraph, 6));
    ASSERT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// Planted: streams do not wait for their words, and write tensors that are being put.
TEST_F(GraphsGathered, AreCaughtIfTheirWordsAreNotReset) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_EQ(control()->restart({.seed = seed, .delay = milliseconds(2)}),
              std::vector<std::string>{});
    control()->forget_words(1000);
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      Slot slot = world.expose(graph_spec(Memory::gpu(0), 8));
      RemoteSlot remote = world.attach(0, graph_spec({}, 8));
      const Parts parts(world);
      OwnStream own(world, 0, kInGraph, 1);
      OwnGraph graph(own);
      graph.call([&, step = 0.0F]() mutable {
        std::ranges::copy(counted(kInGraph, step++), own.host(0));
        parts.fill_host(own.host(0));
      });
      parts.fill(world, own.host(0), own.get());
      EXPECT_OK_STATUS(remote.put(parts.all, own.get()).wait_on(own.get()));
      graph.end();
      for (int turn = 0; turn < 6; ++turn) graph.launch();
      own.synchronize();
      for (float turn = 0; turn < 6; ++turn) {
        const auto arrival = slot.wait(Deadline::after(milliseconds(200)));
        if (!arrival.ok() ||
            seen_by_application(world, arrival.value().tensor()) != counted(kInGraph, turn))
          ++wrong;
        if (!arrival.ok()) break;
      }
    });
    (void)control()->take_complaints();
  }
  EXPECT_GT(wrong, 0);
}

TEST_F(GraphsGathered, MakeNothingInTheSteadyState) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, graph_spec({}));
    const Parts parts(world);
    OwnStream own(world, 0, kInGraph, 1);
    OwnGraph graph(own);
    EXPECT_OK_STATUS(remote.put(parts.all, own.get()).wait_on(own.get()));
    graph.end();
    expect_steady(*control(), parts.all.size(), [&] {
      graph.launch();
      slot.wait().value();
    });
    own.synchronize();
  });
}

TEST_F(GraphsGathered, AreCancelledAtTheirDeadlineAndOutliveTheirEnd) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    const Parts parts(world);
    OwnStream own(world, 0, kInGraph, 1);
    OwnGraph graph(own);
    EXPECT_OK_STATUS(
        remote.put(parts.all, own.get()).wait_on(own.get(), Deadline::after(milliseconds(200))));
    graph.end();
    for (int turn = 0; turn < 3; ++turn) graph.launch();  // without a credit, but for the first
    own.synchronize();
    EXPECT_EQ(slot.wait().value().sequence(), 1U);
    EXPECT_EQ(slot.wait(Deadline::after(milliseconds(50))).code(), Code::timeout);
    const Status why = remote.put(parts.all, own.get()).wait();
    EXPECT_TRUE(tells(why, Code::timeout, {"a stream waited for a put", "\"in\""})) << why.text();
    graph.launch();
    own.synchronize();
    EXPECT_EQ(slot.wait().value().sequence(), 2U);
    remote = RemoteSlot();
    for (int turn = 0; turn < 3; ++turn) graph.launch();
    own.synchronize();
  });
}

TEST_F(GraphsGathered, AreRefusedWhereACaptureCantHaveThem) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0)));
    SlotSpec free_shape = graph_spec(Memory::gpu(0));
    free_shape.name = "free";
    free_shape.placement = Placement::dynamic;
    Slot dynamic = world.expose(free_shape);
    RemoteSlot remote = world.attach(0, graph_spec({}));
    RemoteSlot to_dynamic = world.attach(0, free_shape);
    const Parts parts(world);
    std::vector<float> own_memory(Parts::kSecond);
    OwnStream own(world, 0, kInGraph, 1);
    OwnStream other(world, 1, kInGraph, 1);
    {
      OwnGraph elsewhere(other);
      refuses(remote.put(parts.all, other.get()).wait(), "GPU 1");
      elsewhere.end();
    }
    OwnGraph graph(own);
    auto wrong = parts.all;
    wrong[1] = Tensor::wrap(own_memory.data(), DType::f32, {Parts::kSecond});
    refuses(remote.put(wrong, own.get()).wait(), "no GPU can copy");
    wrong[1] = world.allocate(DType::f32, {Parts::kSecond}, Memory::gpu(1));
    refuses(remote.put(wrong, own.get()).wait(), "of its tensors one lies on");
    wrong.pop_back();
    EXPECT_EQ(remote.put(wrong, own.get()).wait().code(), Code::mismatch);
    refuses(to_dynamic.put(parts.all, own.get()).wait(), "several tensors");
    ASSERT_EQ(::setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
    refuses(remote.put(parts.all, own.get()).wait(), "CUDA_LAUNCH_BLOCKING");
    ::unsetenv("CUDA_LAUNCH_BLOCKING");
    Request request = remote.put(parts.all, own.get());
    refuses(request.wait(), "part of a captured graph");
    EXPECT_OK_STATUS(request.wait_on(own.get()));
    graph.end();
    EXPECT_EQ(slot.wait(Deadline::after(milliseconds(20))).code(), Code::timeout);
    graph.launch();
    own.synchronize();
    EXPECT_EQ(slot.wait().value().sequence(), 1U);
  });
}

}  // namespace
}  // namespace weft::tests
