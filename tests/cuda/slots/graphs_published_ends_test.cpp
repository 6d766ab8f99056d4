// Published versions in captured graphs that find no buffer, fail, or outlive their slot.
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/slots/graphs_published.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

TEST_F(GraphsPublished, GoOnWithoutABufferAtTheirDeadlineAndTheNextCallSaysWhy) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphPublisher publisher(world, slot, Deadline::after(milliseconds(200)));
        publisher.replay();
        {
          const Arrival arrival = reader.view().value();
          for (int turn = 0; turn < 3; ++turn) publisher.graph->launch();
          publisher.own.synchronize();
          EXPECT_EQ(elements_of(world, arrival.tensor()), counted(kInGraph, 0));
        }
        expect_told(slot.next().status(), Code::timeout, {"publish", "rank 0", "\"news\""});
        publisher.replay();
        EXPECT_EQ(viewed(world, reader), counted(kInGraph, 4));
        // So does a publication in a capture.
        const Arrival arrival = reader.view(Deadline::after(milliseconds(0))).ok()
                                    ? Arrival()
                                    : (reader.see_again(), reader.view().value());
        publisher.replay();
        OwnStream other(world, 0, kInGraph, 1);
        OwnGraph graph(other);
        expect_told(slot.publish(other.get()), Code::timeout, {"no buffer"});
        EXPECT_OK_STATUS(slot.publish(other.get()));
        graph.end();
      },
      1);
}

TEST_F(GraphsPublished, SayIfTheThreadHasTheBuffer) {
  for (const Flow flow : {Flow::credits, Flow::unsafe_synchronous})
    run(
        [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
          GraphPublisher publisher(world, slot, Deadline::after(milliseconds(100)));
          const Tensor tensor = slot.next().value();
          publisher.replay();
          expect_told(slot.publish(), Code::timeout, {"next() has given one to the thread"});
          EXPECT_FALSE(reader.ready());
          world.copy(tensor_of(world, Memory::gpu(0), counted(kInGraph, 9)), tensor);
          EXPECT_OK_STATUS(slot.publish());
          EXPECT_EQ(viewed(world, reader), counted(kInGraph, 9));
          publisher.replay();
          EXPECT_EQ(viewed(world, reader), counted(kInGraph, 1));
        },
        1, flow);
}

TEST_F(GraphsPublished, ThatFailAreToldByTheNextCall) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphPublisher publisher(world, slot);
    publisher.replay();
    EXPECT_EQ(viewed(world, reader), counted(kInGraph, 0));
    for (const char* function : {"cuMemcpyAsync", "cuEventRecord"}) {
      control()->refuse(function, 1, DriverStatus::unknown);
      publisher.replay();
      expect_told(slot.next().status(), Code::system, {"publish", "GPU 0", "news"});
      EXPECT_FALSE(reader.ready());
    }
    publisher.replay();
    EXPECT_EQ(viewed(world, reader), counted(kInGraph, 3));
    // A version behind a stream comes behind copies that a replay has left.
    OwnStream own(world, 0, kInGraph, 1);
    own.fill(0, slot.next().value(), 50);
    EXPECT_OK_STATUS(slot.publish(own.get()));
    EXPECT_EQ(viewed(world, reader), counted(kInGraph, 50));
  });
}

TEST_F(GraphsPublished, AClosedSlotLetsStreamsGoOnNowAndLater) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphPublisher publisher(world, slot);
        publisher.replay();
        {
          const Arrival arrival = reader.view().value();
          for (int turn = 0; turn < 3; ++turn) publisher.graph->launch();
          std::this_thread::sleep_for(milliseconds(20));
          slot = PublishedSlot();
          publisher.own.synchronize();
        }
        EXPECT_EQ(reader.view().status().code(), Code::closed);
        for (int turn = 0; turn < 3; ++turn) publisher.replay();
      },
      1);
}

TEST_F(GraphsPublished, ReplaysGoOnAfterTheWorld) {
  for (const bool slot_outlives_it : {false, true}) {
    World world = World::join();  // of one rank
    std::optional<PublishedSlot> slot = world.expose_published(edition(Memory::gpu(0)));
    GraphPublisher publisher(world, *slot);
    publisher.replay();
    for (int turn = 0; turn < 3; ++turn) publisher.graph->launch();
    if (!slot_outlives_it) slot.reset();
    world = World();
    for (int turn = 0; turn < 3; ++turn) publisher.replay();
    slot.reset();
    publisher.replay();
  }
}

TEST_F(GraphsPublished, TwoExecutablesAtOnceAreAnError) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer reports the race that overlapping replays are";
#endif
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphPublisher publisher(world, slot);
        publisher.replay();
        OwnStream other(world, 0, kInGraph, 1);
        const GraphExec second = publisher.graph->instantiate();
        {
          const Arrival arrival = reader.view().value();  // there is no buffer
          publisher.graph->launch();
          publisher.graph->launch(second, other.handle());
          Status why;
          EXPECT_TRUE(soon([&] {
            why = slot.next(Deadline::after(milliseconds(1))).status();
            return why.code() == Code::bad_argument;
          }));
          expect_told(why, Code::bad_argument, {"publish", "two executables"});
          publisher.own.synchronize();
          other.synchronize();
        }
        EXPECT_FALSE(reader.ready());
        publisher.replay();
        EXPECT_EQ(viewed(world, reader), counted(kInGraph, 3));
        EXPECT_OK(driver().destroy_graph_exec(second));
      },
      1);
}

TEST_F(GraphsPublished, AreRefusedWhereACaptureCantHaveThem) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    PublishedSpec on_host = edition({});
    on_host.name = "host";
    PublishedSpec nothing = edition(Memory::gpu(0));
    nothing.name = "nothing";
    nothing.shape = {0};
    PublishedSlot slot = world.expose_published(edition(Memory::gpu(0)));
    PublishedSlot host = world.expose_published(on_host);
    PublishedSlot empty = world.expose_published(nothing);
    PublishedReader reader = world.attach_published(0, "news");
    OwnStream own(world, 0, kInGraph, 1);
    OwnStream other(world, 1, kInGraph, 1);
    {
      OwnGraph elsewhere(other);
      expect_told(slot.publish(other.get()), Code::bad_argument, {"GPU 1", "GPU 0"});
      elsewhere.end();
    }
    OwnGraph graph(own);
    (void)host.next().value();
    (void)empty.next().value();
    expect_told(host.publish(own.get()), Code::bad_argument, {"captures a graph", "host memory"});
    expect_told(empty.publish(own.get()), Code::bad_argument, {"captures a graph", "no elements"});
    ASSERT_EQ(::setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
    expect_told(slot.publish(own.get()), Code::bad_argument, {"CUDA_LAUNCH_BLOCKING"});
    ::unsetenv("CUDA_LAUNCH_BLOCKING");
    // One that is exposed in the midst of a capture can be a part of it.
    PublishedSpec late = edition(Memory::gpu(0));
    late.name = "late";
    PublishedSlot made = world.expose_published(late);
    PublishedReader of_made = world.attach_published(0, "late");
    capture_fill(graph, own, made.next().value());
    EXPECT_OK_STATUS(made.publish(own.get()));
    graph.end();
    graph.launch();
    own.synchronize();
    EXPECT_EQ(viewed(world, of_made), counted(kInGraph, 0));
    EXPECT_FALSE(reader.ready());
    EXPECT_OK_STATUS(host.publish());
    EXPECT_OK_STATUS(empty.publish());
  });
}

#if defined(WEFT_TEST_SIMULATION)
TEST_F(GraphsPublished, AreRefusedInSimulatedJobs) {
  ASSERT_EQ(control()->restart(options_for(Over::simulation)), std::vector<std::string>{});
  run_over(Over::simulation, [&](World& world) {
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(edition(Memory::gpu(0)));
      OwnStream own(world, 0, kInGraph, 1);
      OwnGraph graph(own, CaptureMode::relaxed);
      expect_told(slot.publish(own.get()), Code::bad_argument, {"simulated"});
      graph.end();
    }
    meet(world);
  });
}
#endif

TEST_F(GraphsPublished, AreRefusedWhereTheDriverPinsNothing) {
  run([&](World& world, PublishedSlot& slot, PublishedReader&) {
    control()->refuse("cuMemHostRegister_v2", 3, DriverStatus::not_supported);  // behind the words
    OwnStream own(world, 0, kInGraph, 1);
    OwnGraph graph(own, CaptureMode::relaxed);
    expect_told(slot.publish(own.get()), Code::bad_argument, {"pins no memory"});
    graph.end();
  });
}

}  // namespace
}  // namespace weft::tests
