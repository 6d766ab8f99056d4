// Slots in captured graphs whose replays overlap, fail or go: which tensor goes where after that.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/cuda/slots/graphs.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class GraphOrder : public OnStandInStreams {
 protected:
  static Tensor numbered(World& world, float first, Memory memory = {}) {
    return tensor_of(world, memory, counted(kInGraph, first));
  }
  static void put(World& world, RemoteSlot& remote, float first) {
    remote.put(numbered(world, first)).wait().or_throw();
  }
  /// Waits by the thread until that tells of an overlap.
  static bool tells_of_overlap(Slot& slot) {
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (std::chrono::steady_clock::now() < until)
      if (slot.wait(Deadline::after(milliseconds(10))).status().code() == Code::bad_argument)
        return true;
    return false;
  }
  void destroy(GraphExec executable) {
    control()->act_for_application(true);
    EXPECT_OK(driver().destroy_graph_exec(executable));
    control()->act_for_application(false);
  }
};

TEST_F(GraphOrder, WaitsOfSerialReplaysAfterAnOverlap) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer reports the race that overlapping replays are";
#endif
  for (const std::uint32_t depth : {1U, 2U})
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      SCOPED_TRACE(depth);
      Slot slot = world.expose(graph_spec(Memory::gpu(0), depth));
      RemoteSlot remote = world.attach(0, graph_spec({}, depth));
      put(world, remote, 1);
      slot.wait().value();
      GraphReader reader(world, slot);
      OwnStream other(world, 0, kInGraph, 1);
      const GraphExec second = reader.graph->instantiate();
      reader.graph->launch();
      reader.graph->launch(second, other.handle());
      EXPECT_TRUE(tells_of_overlap(slot));
      reader.own.synchronize();
      other.synchronize();
      for (const std::uint32_t outcome : reader.outcomes)
        EXPECT_EQ(outcome, static_cast<std::uint32_t>(Code::bad_argument));
      reader.seen.clear();
      for (int turn = 2; turn < 7; ++turn) {
        reader.graph->launch();
        std::this_thread::sleep_for(milliseconds(5));
        put(world, remote, static_cast<float>(turn));
        reader.own.synchronize();
        EXPECT_EQ(reader.outcomes.back(), 0U);
      }
      EXPECT_EQ(reader.seen, all_counted(kInGraph, 5, 2));
      destroy(second);
    });
}

TEST_F(GraphOrder, PutsOfSerialReplaysAfterAnOverlap) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer reports the race that overlapping replays are";
#endif
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec({}, 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    const Tensor tensor = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
    OwnStream own(world, 0, kInGraph, 1);
    OwnStream other(world, 0, kInGraph, 1);
    OwnGraph graph(own);
    float step = 0;
    graph.call([&] {
      const auto values = counted(kInGraph, step);
      std::copy(values.begin(), values.end(), own.host(0));
    });
    own.write(0, tensor);
    EXPECT_OK_STATUS(remote.put(tensor, own.get()).wait_on(own.get()));
    graph.call([&] { ++step; });
    graph.end();
    const GraphExec second = graph.instantiate();
    put(world, remote, 50);  // no credit is left
    graph.launch();
    graph.launch(second, other.handle());
    own.synchronize();
    other.synchronize();
    EXPECT_EQ(remote.put(tensor).wait().code(), Code::bad_argument);
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kInGraph, 50));
    const auto next = static_cast<std::size_t>(step);
    Seen seen;
    for (int turn = 0; turn < 5; ++turn) graph.launch();
    for (int turn = 0; turn < 5; ++turn)
      seen.push_back(elements_of(world, slot.wait().value().tensor()));
    own.synchronize();
    EXPECT_EQ(seen, all_counted(kInGraph, 5, next));
    destroy(second);
  });
}

/// The second begins while the first reads the tensor that it is to release.
TEST_F(GraphOrder, AnOverlapBehindTheWaitIsTold) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer reports the race that overlapping replays are";
#endif
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    put(world, remote, 1);
    slot.wait().value();
    OwnStream own(world, 0, kInGraph, 1);
    OwnStream other(world, 0, kInGraph, 1);
    Gate gate;
    OwnGraph graph(own);
    Arrival arrival = slot.wait_on(own.get()).value();
    gate.hold(own);
    EXPECT_OK_STATUS(arrival.release(own.get()));
    graph.end();
    const GraphExec second = graph.instantiate();
    put(world, remote, 2);
    graph.launch();
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (edge_of(world, "in", Role::receives).counters.transfers < 2 &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    graph.launch(second, other.handle());
    EXPECT_TRUE(tells_of_overlap(slot));
    gate.open();
    own.synchronize();
    other.synchronize();
    destroy(second);
  });
}

TEST_F(GraphOrder, EagerPutsComeBehindThoseOfReplays) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec({}, 2));
    RemoteSlot remote = world.attach(0, graph_spec({}, 2));
    const Tensor of_graph = numbered(world, 1, Memory::gpu(0));
    const Tensor eager = numbered(world, 2, Memory::gpu(0));
    OwnStream own(world, 0, kInGraph, 1);
    OwnGraph graph(own);
    const Request captured = remote.put(of_graph, own.get());
    graph.end();
    const auto next = [&] { return elements_of(world, slot.wait().value().tensor()); };
    // 40 are more than may be under way at once.
    for (const int replays : {1, 1, 1, 1, 40}) {
      for (int i = 0; i < replays; ++i) graph.launch();
      own.synchronize();
      Request request = remote.put(eager);
      for (int i = 0; i < replays; ++i) ASSERT_EQ(next(), counted(kInGraph, 1)) << i;
      ASSERT_EQ(next(), counted(kInGraph, 2));
      EXPECT_OK_STATUS(request.wait());
    }
  });
}

TEST_F(GraphOrder, PutsBehindALateOneDoNotTakeItsPlace) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec({}, 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    const Tensor one = numbered(world, 1, Memory::gpu(0));
    const Tensor two = numbered(world, 2, Memory::gpu(0));
    OwnStream own(world, 0, kInGraph, 1);
    OwnGraph graph(own);
    Request first = remote.put(one, own.get());
    Request second = remote.put(two, own.get());
    EXPECT_OK_STATUS(first.wait_on(own.get(), Deadline::after(milliseconds(200))));
    std::atomic<bool> is_late{false};
    graph.call([&] { is_late = true; });
    EXPECT_OK_STATUS(second.wait_on(own.get()));
    graph.end();
    put(world, remote, 50);  // no credit is left
    graph.launch();
    while (!is_late) std::this_thread::yield();
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kInGraph, 50));
    EXPECT_EQ(slot.wait(Deadline::after(milliseconds(100))).code(), Code::timeout);
    EXPECT_EQ(remote.put(one).wait().code(), Code::timeout);
    EXPECT_EQ(slot.wait(Deadline::after(milliseconds(100))).code(), Code::timeout);
    graph.launch();
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kInGraph, 1));
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kInGraph, 2));
    own.synchronize();
  });
}

TEST_F(GraphOrder, ATensorThatNoReplayReleasesIsReleasedWithItsGraph) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    OwnStream own(world, 0, kInGraph, 1);
    for (float turn = 1; turn < 4; ++turn) {
      Seen seen;
      OwnGraph graph(own);
      {
        const Arrival arrival = slot.wait_on(own.get()).value();
        capture_read(graph, own, arrival.tensor(), seen);
      }
      graph.end();
      const Request request = remote.put(numbered(world, turn));
      graph.launch();
      own.synchronize();
      EXPECT_EQ(seen, Seen{counted(kInGraph, turn)});
    }
    const Request request = remote.put(numbered(world, 4));
    EXPECT_EQ(slot.wait().value().sequence(), 4U);
  });
}

TEST_F(GraphOrder, AReplayThatIsLateBehindAThreadEndsOnlyItself) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 2));
    RemoteSlot remote = world.attach(0, graph_spec({}, 2));
    put(world, remote, 1);
    slot.wait().value();
    GraphReader reader(world, slot, Deadline::after(milliseconds(100)));
    const Tensor tensor = numbered(world, 2);
    std::thread behind([&] {
      std::this_thread::sleep_for(milliseconds(500));  // the thread's turn has begun by then
      EXPECT_EQ(reader.replay(), static_cast<std::uint32_t>(Code::timeout));
      remote.put(tensor).wait().or_throw();
    });
    Result<Arrival> taken = slot.wait();
    behind.join();
    EXPECT_EQ(taken.value().sequence(), 2U);
    EXPECT_EQ(slot.wait().status().code(), Code::timeout);
    put(world, remote, 3);
    EXPECT_EQ(slot.wait().value().sequence(), 3U);
  });
}

/// It takes its world's GPU with it, for which the driver waits until no stream waits.
TEST_F(GraphOrder, AGraphThatOutlivesItsWorldHoldsUpNoOther) {
  ASSERT_EQ(control()->restart(without_exports({.delay = milliseconds(1)})),
            std::vector<std::string>{});
  std::optional<World> first = World::join();  // of one rank
  std::optional<Slot> old_slot = first->expose(graph_spec(Memory::gpu(0), 1));
  auto reader = std::make_unique<GraphReader>(*first, *old_slot);
  old_slot.reset();
  *first = World();
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, graph_spec({}));
    OwnStream own(world, 0, kInGraph, 1);
    put(world, remote, 1);
    slot.wait_on(own.get()).value();
    own.synchronize();
    const Tensor tensor = numbered(world, 2);
    Arrival arrival = slot.wait_on(own.get()).value();
    own.read(0, arrival.tensor());
    reader->graph->destroy();
    remote.put(tensor).wait().or_throw();
    own.synchronize();
    EXPECT_EQ(own.elements(0), counted(kInGraph, 2));
    (void)world.allocate(DType::f32, {1}, Memory::gpu(0));  // gives back what the graph kept
  });
  reader.reset();
}

/// The user's deleter may call weft: it runs within a call of the application's.
TEST_F(GraphOrder, MemoryThatAGraphKeptGoesOnTheApplicationsThread) {
  ASSERT_EQ(control()->restart(without_exports({.delay = milliseconds(1)})),
            std::vector<std::string>{});
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec({}, 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    std::vector<float> memory = counted(kInGraph, 7);
    std::atomic<bool> is_gone{false};
    std::thread::id by;
    OwnStream own(world, 0, kInGraph, 1);
    {
      OwnGraph graph(own);
      const Tensor adopted = world.adopt(memory.data(), DType::f32, {kInGraph}, [&] {
        by = std::this_thread::get_id();
        is_gone = true;
      });
      const Request request = remote.put(adopted, own.get());
      graph.end();
      put(world, remote, 1);  // no credit is left
      graph.launch();
      own.synchronize();
    }
    // The graph has gone, and its put is still to move.
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kInGraph, 1));
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kInGraph, 7));
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (!is_gone && std::chrono::steady_clock::now() < until)
      (void)world.allocate(DType::f32, {1}, Memory::gpu(0));
    EXPECT_TRUE(is_gone);
    EXPECT_EQ(by, std::this_thread::get_id());
  });
}

}  // namespace
}  // namespace weft::tests
