// Slots in captured graphs: each replay puts and takes once.
#include "tests/cuda/slots/graphs.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

class Graphs : public OnStandInStreams {
 protected:
  struct Exchange {
    std::size_t turns = 6;
    std::uint32_t depth = 2;
    bool by_graphs = true;
    std::uint64_t seed = 1;
    std::string chunk = "1m";
  };
  /// Rank 1 fills a tensor on its GPU again and again and puts it; rank 0 reads what comes. Returns
  /// the elements that rank 0 has read. Before, both ends make all that they need.
  static Seen exchange(Over fabric, const Exchange& how) {
    Seen seen;
    const auto body = [&](World& world) {
      if (world.rank() == 0)
        receive(world, how, seen);
      else
        send(world, how);
      meet(world);
    };
    run_over(fabric, body, how.seed, {{Setting::gpu_staging, how.chunk}});
    return seen;
  }

 private:
  static void receive(World& world, const Exchange& how, Seen& seen) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0), how.depth));
    OwnStream own(world, 0, kInGraph, 1);
    meet(world, "put");
    {
      Arrival first = slot.wait_on(own.get()).value();
      own.synchronize();
      EXPECT_OK_STATUS(first.release(own.get()));
    }
    meet(world, "prepared");
    OwnGraph graph(own);
    Arrival arrival = slot.wait_on(own.get()).value();
    EXPECT_EQ(arrival.sequence(), 0U);
    capture_read(graph, own, arrival.tensor(), seen);
    EXPECT_OK_STATUS(arrival.release(own.get()));
    EXPECT_FALSE(arrival);
    graph.end();
    meet(world, "captured");
    if (how.by_graphs) {
      for (std::size_t turn = 0; turn < how.turns; ++turn) graph.launch();
      own.synchronize();
    } else {
      for (std::size_t turn = 0; turn < how.turns; ++turn) {
        Arrival next = slot.wait_on(own.get()).value();
        own.read(0, next.tensor());
        EXPECT_OK_STATUS(next.release(own.get()));
        own.synchronize();
        seen.push_back(own.elements(0));
      }
    }
    meet(world, "synchronized");
  }
  static void send(World& world, const Exchange& how) {
    const Tensor tensor = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
    RemoteSlot remote = world.attach(0, graph_spec({}, how.depth));
    OwnStream own(world, 0, kInGraph, 1);
    remote.put(tensor, own.get()).wait().or_throw();
    // All is made, pinned and mapped before a stream waits: the stand-in takes the ranks' streams
    // for those of one process.
    meet(world, "put");
    meet(world, "prepared");
    OwnGraph graph(own);
    capture_fill(graph, own, tensor);
    Request request = remote.put(tensor, own.get());
    EXPECT_OK_STATUS(request.wait_on(own.get()));
    graph.end();
    meet(world, "captured");
    if (how.by_graphs) {
      for (std::size_t turn = 0; turn < how.turns; ++turn) graph.launch();
    } else {
      for (std::size_t turn = 0; turn < how.turns; ++turn) {
        own.fill(0, tensor, static_cast<float>(turn));
        EXPECT_OK_STATUS(remote.put(tensor, own.get()).wait_on(own.get()));
        own.synchronize();
      }
    }
    own.synchronize();
    meet(world, "synchronized");
  }
};

/// On a real driver, too.
class GraphsOnAnyDriver : public Graphs {
 protected:
  void SetUp() override { OnGpus::SetUp(); }
};

TEST_F(GraphsOnAnyDriver, ReplayedAHundredTimesEqualAHundredSteps) {
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

TEST_F(Graphs, OrderPutsAndArrivalsOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;
    for (const std::uint32_t depth : {1U, 2U}) {
      SCOPED_TRACE(name_of(fabric) + " " + std::to_string(depth));
      ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
      EXPECT_EQ(exchange(fabric, {.depth = depth}), all_counted(kInGraph, 6));
      EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
    }
  }
}

TEST_F(Graphs, OrderThemWhereTensorsAreStagedWholeOrInChunks) {
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
TEST_F(Graphs, AreRightHoweverLateTheyAre) {
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

TEST_F(Graphs, PutTensorsOfHostMemory) {
  for (const bool exports : {true, false}) {
    stand_in::Options options{.delay = milliseconds(1)};
    ASSERT_EQ(control()->restart(exports ? options : without_exports(options)),
              std::vector<std::string>{});
    Seen seen;
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      Slot slot = world.expose(graph_spec(Memory::gpu(0)));
      RemoteSlot remote = world.attach(0, graph_spec({}));
      const Tensor host = tensor_of(world, {}, std::vector<float>(kInGraph));
      OwnStream own(world, 0, kInGraph, 1);
      OwnGraph graph(own);
      // The replay itself makes the tensor, which lies on no GPU.
      graph.call([&host, step = 0.0F]() mutable {
        const auto values = counted(kInGraph, step++);
        std::copy(values.begin(), values.end(), host.as<float>().begin());
      });
      EXPECT_OK_STATUS(remote.put(host, own.get()).wait_on(own.get()));
      Arrival arrival = slot.wait_on(own.get()).value();
      capture_read(graph, own, arrival.tensor(), seen);
      EXPECT_OK_STATUS(arrival.release(own.get()));
      graph.end();
      for (int turn = 0; turn < 5; ++turn) graph.launch();
      own.synchronize();
    });
    EXPECT_EQ(seen, all_counted(kInGraph, 5));
  }
}

TEST_F(Graphs, PutIntoSlotsOfHostMemoryWhoseThreadWaits) {
  for (const Over fabric : {Over::shm, Over::tcp}) {
    ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
    run_over(fabric, [&](World& world) {
      if (world.rank() == 0) {
        Slot slot = world.expose(graph_spec({}));
        for (int turn = 0; turn < 5; ++turn)
          EXPECT_EQ(elements_of(world, slot.wait().value().tensor()),
                    counted(kInGraph, static_cast<float>(turn)));
      } else {
        const Tensor tensor = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
        RemoteSlot remote = world.attach(0, graph_spec({}));
        OwnStream own(world, 0, kInGraph, 1);
        OwnGraph graph(own);
        capture_fill(graph, own, tensor);
        EXPECT_OK_STATUS(remote.put(tensor, own.get(), Until::delivered).wait_on(own.get()));
        graph.end();
        for (int turn = 0; turn < 5; ++turn) graph.launch();
        own.synchronize();
      }
      meet(world);
    });
  }
}

/// Each rank's graph waits for what the other has put, and puts what it has made of that: one adds
/// nothing, and so the tensor comes back.
TEST_F(Graphs, MakePipelinesOfRanks) {
  ASSERT_EQ(control()->restart({.delay = milliseconds(1)}), std::vector<std::string>{});
  Seen seen;
  run_on(2, settings().with(Setting::log, "off"), [&](World& world) {
    SlotSpec spec = graph_spec(Memory::gpu(world.rank()), 1);
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(1 - world.rank(), graph_spec({}, 1));
    const Tensor tensor = world.allocate(DType::f32, {kInGraph}, Memory::gpu(world.rank()));
    OwnStream own(world, world.rank(), kInGraph, 1);
    OwnGraph graph(own);
    const auto put = [&] { EXPECT_OK_STATUS(remote.put(tensor, own.get()).wait_on(own.get())); };
    if (world.rank() == 0) {
      capture_fill(graph, own, tensor);
      put();
    }
    Arrival arrival = slot.wait_on(own.get()).value();
    if (world.rank() == 0)
      capture_read(graph, own, arrival.tensor(), seen);
    else
      world.copy(arrival.tensor(), tensor, own.get());
    EXPECT_OK_STATUS(arrival.release(own.get()));
    if (world.rank() == 1) put();
    graph.end();
    meet(world, "captured");
    for (int turn = 0; turn < 10; ++turn) graph.launch();
    own.synchronize();
    meet(world);
  });
  EXPECT_EQ(seen, all_counted(kInGraph, 10));
}

TEST_F(Graphs, HaveSeveralPutsAndWaits) {
  for (const std::uint32_t depth : {1U, 2U, 4U}) {
    SCOPED_TRACE(depth);
    ASSERT_EQ(control()->restart({.delay = milliseconds(1)}), std::vector<std::string>{});
    Seen seen;
    run_on(2, settings().with(Setting::log, "off"), [&](World& world) {
      OwnStream own(world, 0, kInGraph, 1);
      if (world.rank() == 0) {
        Slot slot = world.expose(graph_spec(Memory::gpu(0), depth));
        OwnGraph graph(own);
        for (int part = 0; part < 3; ++part) {
          Arrival arrival = slot.wait_on(own.get()).value();
          capture_read(graph, own, arrival.tensor(), seen);
          EXPECT_OK_STATUS(arrival.release(own.get()));
        }
        graph.end();
        meet(world, "captured");
        for (int turn = 0; turn < 4; ++turn) graph.launch();
        own.synchronize();
        meet(world, "synchronized");
      } else {
        RemoteSlot remote = world.attach(0, graph_spec({}, depth));
        std::vector<Tensor> tensors;
        for (int part = 0; part < 3; ++part)
          tensors.push_back(world.allocate(DType::f32, {kInGraph}, Memory::gpu(0)));
        OwnGraph graph(own);
        std::vector<Request> requests;
        float step = 0;
        for (const Tensor& tensor : tensors) {
          graph.call([&] {
            const auto values = counted(kInGraph, step++);
            std::copy(values.begin(), values.end(), own.host(0));
          });
          own.write(0, tensor);
          requests.push_back(remote.put(tensor, own.get()));
        }
        for (Request& request : requests) EXPECT_OK_STATUS(request.wait_on(own.get()));
        graph.end();
        meet(world, "captured");
        for (int turn = 0; turn < 4; ++turn) graph.launch();
        own.synchronize();
        meet(world, "synchronized");
      }
      meet(world);
    });
    EXPECT_EQ(seen, all_counted(kInGraph, 12));
  }
}

}  // namespace
}  // namespace weft::tests
