// Gets of replays, of streams behind them, and of the thread: none waits for another one's stream.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/cuda/slots/graphs_got.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Opens the gate once the thread has begun to wait, and publishes until it has gone.
class LateOwner {
 public:
  LateOwner(Gate& gate, PublishedSlot& slot)
      : thread_([&] {
          std::this_thread::sleep_for(milliseconds(50));
          gate.open();
          for (float version = 1; !is_over_; ++version) {
            publish_got(slot, version);
            std::this_thread::sleep_for(milliseconds(1));
          }
        }) {}
  LateOwner(const LateOwner&) = delete;
  LateOwner& operator=(const LateOwner&) = delete;
  ~LateOwner() {
    is_over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

Tensor on_gpu(World& world) { return world.allocate(DType::f32, {kInGraph}, Memory::gpu(0)); }

void expect_whole(const std::vector<float>& seen) { EXPECT_EQ(seen, counted(kInGraph, seen[0])); }

TEST_F(GraphsGot, LetAGetBehindThemOnTheirStreamWait) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphGetter getter(world, reader);
    const Tensor into = on_gpu(world);
    Gate gate;
    gate.hold(getter.own);
    getter.graph->launch();
    EXPECT_OK_STATUS(reader.get(into, getter.own.get()));
    gate.open();
    publish_got(slot, 1);
    EXPECT_TRUE(soon([&] { return getter.done == 1; }));
    publish_got(slot, 2);
    getter.own.synchronize();
    EXPECT_EQ(getter.outcomes, std::vector<std::uint32_t>{0});
    EXPECT_EQ(*reader.outcome(), 0U);
    EXPECT_EQ(getter.seen, all_counted(kInGraph, 1, 1));
    EXPECT_EQ(seen_by_application(world, into), counted(kInGraph, 2));
  });
}

TEST_F(GraphsGot, GoOnWhileTheThreadWaitsForAGetBehindThem) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphGetter getter(world, reader);
        const Tensor into = on_gpu(world);
        Gate gate;
        gate.hold(getter.own);
        getter.graph->launch();
        EXPECT_OK_STATUS(reader.get(into, getter.own.get()));
        const LateOwner owner(gate, slot);
        const auto arrival = reader.view();
        EXPECT_OK_STATUS(arrival.status());
        getter.own.synchronize();
        EXPECT_EQ(getter.outcomes, std::vector<std::uint32_t>{0});
        EXPECT_EQ(*reader.outcome(), 0U);
        expect_whole(seen_by_application(world, into));
      },
      4);
}

TEST_F(GraphsGot, GoOnWhileTheThreadWaitsForTheirStream) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphGetter getter(world, reader);
        const Tensor host = world.allocate(DType::f32, {kInGraph});
        Gate gate;
        gate.hold(getter.own);
        getter.graph->launch();
        const LateOwner owner(gate, slot);
        EXPECT_OK_STATUS(reader.get(host, getter.own.get()));
        getter.own.synchronize();
        EXPECT_EQ(getter.outcomes, std::vector<std::uint32_t>{0});
        expect_whole(elements_of(world, host));
      },
      4);
}

TEST_F(GraphsGot, GoOnWhileTheThreadWaitsForALateGetBehindThem) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphGetter getter(world, reader);
        const Tensor into = on_gpu(world);
        Gate gate;
        gate.hold(getter.own);
        getter.graph->launch();
        EXPECT_OK_STATUS(reader.get(into, getter.own.get(), Deadline::after(milliseconds(1))));
        expect_told(reader.view().status(), Code::timeout, {"get", "did not come to the get"});
        EXPECT_EQ(*reader.outcome(), number_of(Code::timeout));
        const LateOwner owner(gate, slot);
        EXPECT_OK_STATUS(reader.get(into, getter.own.get()));
        getter.own.synchronize();
        EXPECT_EQ(getter.outcomes, std::vector<std::uint32_t>{0});
        EXPECT_EQ(*reader.outcome(), 0U);
        expect_whole(seen_by_application(world, into));
      },
      4);
}

/// The first get on another GPU waits until no stream waits. Meanwhile a replay comes to its get.
TEST_F(GraphsGot, GoOnWhileTheThreadWaitsForAllStreams) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    PublishedSlot slot = world.expose_published(got_edition(4));
    PublishedReader reader = world.attach_published(0, "news");
    Slot turn = world.expose(graph_spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, graph_spec({}));
    GraphGetter getter(world, reader);
    OwnStream waiting(world, 0, kInGraph, 1);
    OwnStream elsewhere(world, 1, kInGraph, 1);
    const Tensor into = world.allocate(DType::f32, {kInGraph}, Memory::gpu(1));
    const Tensor word = tensor_of(world, {}, counted(kInGraph));
    remote.put(word).wait().or_throw();  // what it needs is made while no stream waits
    turn.wait().value();
    Gate gate;
    const Arrival arrival = turn.wait_on(waiting.get()).value();
    gate.hold(getter.own);
    getter.graph->launch();
    const LateOwner owner(gate, slot);
    std::thread writer([&] {
      EXPECT_TRUE(soon([&] { return getter.done == 1; }));
      remote.put(word).wait().or_throw();
    });
    EXPECT_OK_STATUS(reader.get(into, elsewhere.get()));
    writer.join();
    waiting.synchronize();
    getter.own.synchronize();
    elsewhere.synchronize();
    EXPECT_EQ(getter.outcomes, std::vector<std::uint32_t>{0});
    EXPECT_EQ(*reader.outcome(), 0U);
    expect_whole(seen_by_application(world, into));
  });
}

TEST_F(GraphsGot, EndAtTheirDeadlineWhileTheThreadReads) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphGetter getter(world, reader, Deadline::after(milliseconds(50)));
    Gate gate;
    gate.hold(getter.own);
    getter.graph->launch();
    std::thread opens([&] {
      std::this_thread::sleep_for(milliseconds(300));  // the thread has its turn by then
      gate.open();
    });
    EXPECT_EQ(reader.view(Deadline::after(seconds(2))).status().code(), Code::timeout);
    opens.join();
    getter.own.synchronize();
    EXPECT_EQ(getter.outcomes.back(), number_of(Code::timeout));
    publish_got(slot, 1);
    expect_told(reader.view().status(), Code::timeout, {"get", "replay's", "beyond its time"});
    EXPECT_EQ(getter.replay(), 0U);
  });
}

}  // namespace
}  // namespace weft::tests
