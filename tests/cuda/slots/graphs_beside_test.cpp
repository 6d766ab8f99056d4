// Captured graphs beside other work: calls outside of them, other streams, weft's own threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/slots/graphs.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

using GraphsBeside = OnStandInStreams;

TEST_F(GraphsBeside, CallsOutsideOfThem) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    for (const std::uint32_t depth : {1U, 2U}) {
      Seen seen;
      SlotSpec spec = graph_spec(Memory::gpu(0), depth);
      spec.name = std::to_string(depth);
      Slot slot = world.expose(spec);
      RemoteSlot remote = world.attach(0, spec);
      const Tensor tensor = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
      OwnStream own(world, 0, kInGraph, 2);
      float step = 0;
      const auto put = [&] {
        return remote.put(tensor_of(world, Memory::gpu(0), counted(kInGraph, step++)));
      };
      put().wait().or_throw();
      EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kInGraph, 0));
      OwnGraph graph(own);
      graph.call([&] {
        const auto values = counted(kInGraph, step++);
        std::copy(values.begin(), values.end(), own.host(1));
      });
      own.write(1, tensor);
      EXPECT_OK_STATUS(remote.put(tensor, own.get()).wait_on(own.get()));
      Arrival arrival = slot.wait_on(own.get()).value();
      capture_read(graph, own, arrival.tensor(), seen);
      EXPECT_OK_STATUS(arrival.release(own.get()));
      graph.end();
      std::uint64_t sequence = 1;
      for (int round = 0; round < 3; ++round) {
        graph.launch();
        graph.launch();
        own.synchronize();
        sequence += 2;
        put().wait().or_throw();
        EXPECT_TRUE(slot.ready());
        const Arrival by_thread = slot.wait().value();
        EXPECT_EQ(by_thread.sequence(), ++sequence);
        seen.push_back(elements_of(world, by_thread.tensor()));
      }
      put().wait().or_throw();
      Arrival by_stream = slot.wait_on(own.get()).value();
      EXPECT_EQ(by_stream.sequence(), ++sequence);
      own.synchronize();
      seen.push_back(elements_of(world, by_stream.tensor()));
      EXPECT_EQ(seen, all_counted(kInGraph, 10, 1));
      EXPECT_EQ(edge_of(world, spec.name, Role::receives).counters.transfers, 11U);
    }
  });
}

/// A thread and a graph that wait for one slot take what comes in turn, and each tensor comes once.
TEST_F(GraphsBeside, ThreadsTakeEachTensorOnce) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    constexpr std::size_t kTurns = 20;
    Seen seen;
    Slot slot = world.expose(graph_spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, graph_spec({}));
    OwnStream own(world, 0, kInGraph, 1);
    OwnStream other(world, 0, kInGraph, 1);
    OwnGraph graph(own);
    Arrival arrival = slot.wait_on(own.get()).value();
    capture_read(graph, own, arrival.tensor(), seen);
    EXPECT_OK_STATUS(arrival.release(own.get()));
    graph.end();
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < 2 * kTurns; ++i)
      tensors.push_back(tensor_of(world, {}, counted(kInGraph, static_cast<float>(i))));
    for (std::size_t i = 0; i < kTurns; ++i) graph.launch();
    std::thread writer([&] {
      for (const Tensor& tensor : tensors) remote.put(tensor).wait().or_throw();
    });
    Seen by_thread;
    for (std::size_t i = 0; i < kTurns; ++i) {
      const Arrival taken = slot.wait().value();
      other.read(0, taken.tensor());
      other.synchronize();
      by_thread.push_back(other.elements(0));
    }
    writer.join();
    own.synchronize();
    seen.insert(seen.end(), by_thread.begin(), by_thread.end());
    std::ranges::sort(seen);
    EXPECT_EQ(seen, all_counted(kInGraph, 2 * kTurns));
  });
}

TEST_F(GraphsBeside, OtherStreamsOfTheSameCapture) {
  ASSERT_EQ(control()->restart({.delay = milliseconds(1)}), std::vector<std::string>{});
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Seen seen;
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    const Tensor tensor = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
    OwnStream own(world, 0, kInGraph, 1);
    OwnStream other(world, 0, kInGraph, 1);
    const OwnContext context(driver(), 0);
    Event fork = nullptr;
    Event join = nullptr;
    for (Event* event : {&fork, &join})
      EXPECT_OK(driver().create_event(event, kEventDisableTiming));
    OwnGraph graph(own);
    EXPECT_OK(driver().record_event(fork, own.handle()));
    EXPECT_OK(driver().wait_event(other.handle(), fork, 0));
    Arrival arrival = slot.wait_on(other.get()).value();
    other.read(0, arrival.tensor());
    EXPECT_OK_STATUS(arrival.release(other.get()));
    EXPECT_OK(driver().record_event(join, other.handle()));
    capture_fill(graph, own, tensor);
    Request request = remote.put(tensor, own.get());
    EXPECT_OK(driver().wait_event(own.handle(), join, 0));
    EXPECT_OK_STATUS(request.wait_on(own.get()));
    graph.call([&] { seen.push_back(other.elements(0)); });
    graph.end();
    for (int turn = 0; turn < 5; ++turn) graph.launch();
    own.synchronize();
    EXPECT_EQ(seen, all_counted(kInGraph, 5));
    for (const Event event : {fork, join}) EXPECT_OK(driver().destroy_event(event));
  });
  (void)control()->take_complaints();  // of the context that was made for the events
}

TEST_F(GraphsBeside, OtherWorkMakeNothingWhenTheyAreReplayed) {
  for (const std::uint32_t depth : {1U, 2U})
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      Slot slot = world.expose(graph_spec(Memory::gpu(0), depth));
      RemoteSlot remote = world.attach(0, graph_spec({}, depth));
      const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kInGraph));
      OwnStream own(world, 0, kInGraph, 1);
      OwnGraph graph(own);
      EXPECT_OK_STATUS(remote.put(tensor, own.get()).wait_on(own.get()));
      Arrival arrival = slot.wait_on(own.get()).value();
      EXPECT_OK_STATUS(arrival.release(own.get()));
      graph.end();
      // One by the writer's GPU, and one to the graph's own tensor.
      expect_steady(*control(), depth == 1 ? 1 : 2, [&] {
        graph.launch();
        while (driver().query_stream(own.handle()) != DriverStatus::success)
          std::this_thread::yield();
      });
      EXPECT_EQ(edge_of(world, "in", Role::receives).counters.device_copies, depth == 1 ? 0U : 14U);
    });
}

TEST_F(GraphsBeside, OtherWorkAreSpoiltByNoneOfWeftsThreads) {
  ASSERT_EQ(control()->restart(without_exports({.delay = milliseconds(2)})),
            std::vector<std::string>{});
  for (const CaptureMode mode :
       {CaptureMode::global, CaptureMode::thread_local_, CaptureMode::relaxed})
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      Seen seen;
      OwnStream own(world, 0, kInGraph, 1);
      // Copies of another slot are under way all the time.
      SlotSpec busy = graph_spec(Memory::gpu(1));
      busy.name = "busy";
      Slot slot_of_others = world.expose(busy);
      RemoteSlot others = world.attach(0, busy);
      const Tensor there = tensor_of(world, Memory::gpu(1), counted(kInGraph));
      std::atomic<bool> ends{false};
      std::thread thread([&] {
        while (!ends) {
          others.put(there).wait().or_throw();
          slot_of_others.wait().value();
        }
      });
      // The ends themselves are made while the graph is captured.
      OwnGraph graph(own, mode);
      Slot slot = world.expose(graph_spec(Memory::gpu(0)));
      RemoteSlot remote = world.attach(0, graph_spec({}));
      const Tensor tensor = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
      capture_fill(graph, own, tensor);
      EXPECT_OK_STATUS(remote.put(tensor, own.get()).wait_on(own.get()));
      Arrival arrival = slot.wait_on(own.get()).value();
      capture_read(graph, own, arrival.tensor(), seen);
      EXPECT_OK_STATUS(arrival.release(own.get()));
      std::this_thread::sleep_for(milliseconds(20));
      graph.end();
      ends = true;
      thread.join();
      graph.launch();
      own.synchronize();
      EXPECT_EQ(seen, all_counted(kInGraph, 1));
    });
}

}  // namespace
}  // namespace weft::tests
