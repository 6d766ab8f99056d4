// Publications of replays and of calls behind them on one stream, with few buffers.
#include <chrono>
#include <thread>
#include <utility>

#include "tests/cuda/slots/graphs_published.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::pair<std::uint32_t, Flow> kFewBuffers[] = {
    {1, Flow::credits},
    {2, Flow::credits},
    {3, Flow::credits},
    {1, Flow::unsafe_synchronous},
    {2, Flow::unsafe_synchronous},
};

/// A capture of another publication, which gives back the buffer of next().
void capture_another(World& world, PublishedSlot& slot) {
  OwnStream own(world, 0, kInGraph, 1);
  OwnGraph graph(own);
  EXPECT_OK_STATUS(slot.publish(own.get()));
  graph.end();
}

TEST_F(GraphsPublished, AreAheadOfAVersionBehindThemOnTheirStream) {
  for (const auto& [depth, flow] : kFewBuffers) {
    SCOPED_TRACE(testing::Message() << depth << (flow == Flow::credits ? "" : ", synchronous"));
    run(
        [](World& world, PublishedSlot& slot, PublishedReader& reader) {
          GraphPublisher publisher(world, slot);
          const Tensor other = tensor_of(world, Memory::gpu(0), counted(kInGraph, 100));
          Gate gate;
          for (std::uint64_t turn = 1; turn <= 3; ++turn) {
            gate.hold(publisher.own);
            publisher.graph->launch();
            world.copy(other, slot.next().value(), publisher.own.get());
            std::thread opens([&] {
              std::this_thread::sleep_for(milliseconds(20));
              gate.open();
            });
            EXPECT_OK_STATUS(slot.publish(publisher.own.get()));
            opens.join();
            publisher.own.synchronize();
            EXPECT_TRUE(soon([&] {
              const auto arrival = reader.view();
              EXPECT_OK_STATUS(arrival.status());
              return !arrival.ok() || arrival.value().sequence() == 2 * turn;
            }));
            reader.see_again();
            EXPECT_EQ(viewed(world, reader), counted(kInGraph, 100));
          }
        },
        depth, flow);
  }
}

TEST_F(GraphsPublished, LetAVersionBehindThemWaitForItsStreamIfThereAreBuffers) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphPublisher publisher(world, slot);
        const Tensor other = tensor_of(world, Memory::gpu(0), counted(kInGraph, 100));
        Gate gate;
        gate.hold(publisher.own);
        publisher.graph->launch();
        world.copy(other, slot.next().value(), publisher.own.get());
        EXPECT_OK_STATUS(slot.publish(publisher.own.get()));
        (void)slot.next().value();
        gate.open();
        publisher.own.synchronize();
        EXPECT_TRUE(soon([&] { return reader.view().value().sequence() == 2; }));
        reader.see_again();
        EXPECT_EQ(viewed(world, reader), counted(kInGraph, 100));
        EXPECT_OK_STATUS(slot.publish());
      },
      4);
}

TEST_F(GraphsPublished, LeaveALateVersionBehindThemToTheNextCall) {
  for (const auto& [depth, flow] : kFewBuffers)
    run(
        [](World& world, PublishedSlot& slot, PublishedReader& reader) {
          GraphPublisher publisher(world, slot);
          const Tensor other = tensor_of(world, Memory::gpu(0), counted(kInGraph, 100));
          Gate gate;
          gate.hold(publisher.own);
          publisher.graph->launch();
          world.copy(other, slot.next().value(), publisher.own.get());
          expect_told(slot.publish(publisher.own.get(), Deadline::after(milliseconds(20))),
                      Code::timeout, {"the stream has not come", "next()"});
          EXPECT_FALSE(reader.ready());
          gate.open();
          EXPECT_EQ(viewed(world, reader), counted(kInGraph, 0));
          (void)slot.next().value();
          EXPECT_OK_STATUS(slot.publish(publisher.own.get()));
          EXPECT_EQ(viewed(world, reader), counted(kInGraph, 100));
        },
        depth, flow);
}

TEST_F(GraphsPublished, SayAtDepthTwoIfTheThreadHasTheBuffer) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphPublisher publisher(world, slot, Deadline::after(milliseconds(100)));
        publisher.replay();
        EXPECT_EQ(viewed(world, reader), counted(kInGraph, 0));
        (void)slot.next().value();
        publisher.replay();
        expect_told(slot.publish(), Code::timeout, {"next() has given one to the thread"});
        EXPECT_OK_STATUS(slot.publish());
        publisher.replay();
        EXPECT_EQ(viewed(world, reader), counted(kInGraph, 2));
      },
      2);
}

TEST_F(GraphsPublished, EndWithARankThatTheSlotNeeds) {
  run_over(Over::shm, [&](World& world) {
    if (world.rank() == 1) {
      meet(world, "attached");
      meet(world, "leaves");
      world.leave().or_throw();
      return;
    }
    PublishedSlot slot = world.expose_published(edition(Memory::gpu(0), 1));
    PublishedReader reader = world.attach_published(0, "news");
    meet(world, "attached");
    const std::vector<int> needed{1};
    slot.also_needs(needed);
    GraphPublisher publisher(world, slot, Deadline::after(std::chrono::seconds(30)));
    publisher.replay();
    const Arrival arrival = reader.view().value();
    publisher.graph->launch();  // there is no buffer
    meet(world, "leaves");
    publisher.own.synchronize();
    expect_told(slot.next().status(), Code::peer_left, {"publish", "rank 1", "news"});
  });
}

/// At depth 1 next() takes the newest version from readers. It is there again, if it is whole.
TEST_F(GraphsPublished, GiveBackTheNewestVersionIfNothingWasCopiedOverIt) {
  for (const bool is_copied_over : {false, true})
    run(
        [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
          // The copy goes on, perhaps, and nothing tells of its end.
          const auto fail_behind_a_copy = [&] {
            control()->refuse("cuEventRecord", 1, DriverStatus::unknown);
            EXPECT_EQ(slot.publish().code(), Code::system);
          };
          OwnStream own(world, 0, kInGraph, 1);
          own.fill(0, slot.next().value(), 7);
          own.synchronize();
          fail_behind_a_copy();
          EXPECT_OK_STATUS(slot.publish());
          own.fill(0, slot.next().value(), 8);
          own.synchronize();
          EXPECT_FALSE(reader.ready());
          if (is_copied_over) {
            fail_behind_a_copy();
            control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown);
            EXPECT_EQ(slot.publish(own.get()).code(), Code::system);
          }
          capture_another(world, slot);
          EXPECT_EQ(reader.ready(), !is_copied_over);
          if (!is_copied_over) {
            EXPECT_EQ(viewed(world, reader), counted(kInGraph, 7));
          }
        },
        1);
}

}  // namespace
}  // namespace weft::tests
