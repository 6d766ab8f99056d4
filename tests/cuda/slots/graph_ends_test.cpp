// Slots in captured graphs whose tensors are late or never come, and whose ends go.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/cuda/slots/graphs.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class GraphEnds : public OnStandInStreams {
 protected:
  using Reader = GraphReader;
  using Writer = GraphWriter;
  static void put(World& world, RemoteSlot& remote, float first) {
    remote.put(tensor_of(world, {}, counted(kInGraph, first))).wait().or_throw();
  }
};

TEST_F(GraphEnds, ADeadlineEndsTheWaitAndTheNextCallSaysWhy) {
  for (const std::uint32_t depth : {1U, 2U})
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      Slot slot = world.expose(graph_spec(Memory::gpu(0), depth));
      RemoteSlot remote = world.attach(0, graph_spec({}, depth));
      put(world, remote, 1);
      slot.wait().value();
      Reader reader(world, slot, Deadline::after(milliseconds(200)));
      Reader patient(world, slot);
      EXPECT_EQ(reader.replay(), number_of(Code::timeout));
      // All that follow fail at once, though a tensor is there, until the application knows.
      put(world, remote, 2);
      EXPECT_EQ(reader.replay(), number_of(Code::timeout));
      EXPECT_EQ(patient.replay(), number_of(Code::timeout));
      const Status why = slot.wait().status();
      EXPECT_TRUE(tells(why, Code::timeout, {"a stream waited", "\"in\""})) << why.text();
      EXPECT_EQ(why.detail().sequence_expected, 2U);
      EXPECT_EQ(patient.replay(), 0U);
      EXPECT_EQ(patient.seen.back(), counted(kInGraph, 2));
      // So does a wait of a stream, and one in a capture.
      for (const bool captures : {false, true}) {
        EXPECT_EQ(reader.replay(), number_of(Code::timeout));
        OwnStream other(world, 0, kInGraph, 1);
        std::optional<OwnGraph> graph;
        if (captures) graph.emplace(other);
        EXPECT_EQ(slot.wait_on(other.get()).status().code(), Code::timeout);
        if (captures) graph->end();
        put(world, remote, 3);
        EXPECT_EQ(patient.replay(), 0U);
        EXPECT_EQ(patient.seen.back(), counted(kInGraph, 3));
      }
    });
}

TEST_F(GraphEnds, ADeadlineCountsFromWhenTheStreamComesToTheWait) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, graph_spec({}));
    put(world, remote, 1);
    slot.wait().value();
    Reader reader(world, slot, Deadline::after(seconds(3)));
    std::this_thread::sleep_for(milliseconds(3100));
    reader.graph->launch();
    std::this_thread::sleep_for(milliseconds(50));
    put(world, remote, 2);
    reader.own.synchronize();
    EXPECT_EQ(reader.outcomes.back(), 0U);
  });
}

TEST_F(GraphEnds, ReplaysThatAreQueuedFailOneBehindTheOther) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, graph_spec({}));
    put(world, remote, 1);
    slot.wait().value();
    Reader reader(world, slot, Deadline::after(milliseconds(200)));
    for (int i = 0; i < 5; ++i) reader.graph->launch();
    reader.own.synchronize();
    EXPECT_EQ(reader.outcomes, std::vector<std::uint32_t>(5, number_of(Code::timeout)));
    EXPECT_EQ(slot.wait().status().code(), Code::timeout);
    put(world, remote, 2);
    EXPECT_EQ(slot.wait().value().sequence(), 2U);
  });
}

TEST_F(GraphEnds, APutThatIsLateIsCancelledAndTheNextCallSaysWhy) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    Writer writer(world, remote, Deadline::after(milliseconds(200)));
    Writer patient(world, remote);
    patient.replay();
    writer.replay();   // there is no credit
    patient.replay();  // which fails at once
    EXPECT_EQ(slot.wait().value().sequence(), 1U);
    patient.replay();
    EXPECT_EQ(slot.wait(Deadline::after(milliseconds(50))).code(), Code::timeout);
    const Status why = remote.put(writer.tensor).wait();
    EXPECT_TRUE(tells(why, Code::timeout, {"a stream waited for a put", "\"in\""})) << why.text();
    patient.replay();
    EXPECT_EQ(slot.wait().value().sequence(), 2U);
    // So does a put behind a stream, and one in a capture.
    patient.replay();
    writer.replay();
    EXPECT_EQ(remote.put(writer.tensor, writer.own.get()).wait().code(), Code::timeout);
    EXPECT_EQ(slot.wait().value().sequence(), 3U);
    patient.replay();
    writer.replay();
    OwnGraph graph(writer.own);
    EXPECT_EQ(remote.put(writer.tensor, writer.own.get()).wait().code(), Code::timeout);
    graph.end();
    EXPECT_EQ(slot.wait().value().sequence(), 4U);
  });
}

TEST_F(GraphEnds, AClosedSlotLetsStreamsGoOnNowAndLater) {
  for (const std::uint32_t depth : {1U, 2U})
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      Slot slot = world.expose(graph_spec(Memory::gpu(0), depth));
      RemoteSlot remote = world.attach(0, graph_spec({}, depth));
      put(world, remote, 1);
      slot.wait().value();
      Reader reader(world, slot);
      put(world, remote, 2);
      EXPECT_EQ(reader.replay(), 0U);
      for (int i = 0; i < 3; ++i) reader.graph->launch();
      std::this_thread::sleep_for(milliseconds(20));
      slot = Slot();
      reader.own.synchronize();
      EXPECT_EQ(reader.replay(), number_of(Code::closed));
      EXPECT_EQ(reader.outcomes.size(), 5U);
      for (std::size_t i = 1; i < 5; ++i)
        EXPECT_EQ(reader.outcomes[i], number_of(Code::closed)) << i;
      // The memory that the graph reads is not used by others, as long as it is there.
      std::vector<Tensor> next;
      for (int i = 0; i < 8; ++i)
        next.push_back(tensor_of(world, Memory::gpu(0), counted(kInGraph, 50)));
      reader.replay();
      EXPECT_EQ(reader.seen.back(), counted(kInGraph, 2));
    });
}

TEST_F(GraphEnds, AWriterThatGoesLetsStreamsGoOnNowAndLater) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    Writer writer(world, remote);
    for (int i = 0; i < 4; ++i) writer.graph->launch();
    EXPECT_EQ(slot.wait().value().sequence(), 1U);
    std::this_thread::sleep_for(milliseconds(20));
    remote = RemoteSlot();
    writer.own.synchronize();
    for (int i = 0; i < 3; ++i) writer.replay();
  });
}

/// The graphs, their words and the memory that they use outlive the world.
TEST_F(GraphEnds, ReplaysGoOnAfterTheWorld) {
  for (const bool ends_outlive_it : {false, true}) {
    World world = World::join();  // of one rank
    std::optional<Slot> slot = world.expose(graph_spec(Memory::gpu(0), 1));
    std::optional<RemoteSlot> remote = world.attach(0, graph_spec({}, 1));
    put(world, *remote, 1);
    slot->wait().value();
    Reader reader(world, *slot);
    Writer writer(world, *remote);
    writer.replay();
    EXPECT_EQ(reader.replay(), 0U);
    reader.graph->launch();
    for (int i = 0; i < 3; ++i) writer.graph->launch();
#if defined(__SANITIZE_THREAD__)
    // Behind `closed` the reader's graph would read what a put that goes on may still write.
    reader.own.synchronize();
    EXPECT_TRUE(soon([&] { return slot->ready(); }));
#endif
    if (!ends_outlive_it) {
      slot.reset();
      remote.reset();
    }
    world = World();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(reader.replay(), number_of(Code::closed));
      writer.replay();
    }
    EXPECT_EQ(reader.seen.back(), counted(kInGraph));
    slot.reset();
    remote.reset();
    EXPECT_EQ(reader.replay(), number_of(Code::closed));
    writer.replay();
  }
}

TEST_F(GraphEnds, APeerThatLeavesLetsStreamsGoOn) {
  for (const bool is_writer_last : {false, true}) {
    std::atomic<bool> captured{false};
    run_pair(
        [&](World& world) {
          Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
          meet(world);
          if (is_writer_last) {
            while (!captured) std::this_thread::yield();
            world.leave().or_throw();
            return;
          }
          Reader reader(world, slot);
          captured = true;
          const std::uint32_t outcome = reader.replay();
          EXPECT_TRUE(outcome == number_of(Code::peer_left) || outcome == number_of(Code::closed))
              << outcome;
          EXPECT_EQ(reader.replay(), outcome);
          EXPECT_EQ(slot.wait().status().code(), static_cast<Code>(outcome));
        },
        [&](World& world) {
          RemoteSlot remote = world.attach(0, graph_spec({}, 1));
          meet(world);
          if (!is_writer_last) {
            while (!captured) std::this_thread::yield();
            world.leave().or_throw();
            return;
          }
          Writer writer(world, remote);
          captured = true;
          for (int i = 0; i < 4; ++i) writer.replay();
          const Status why = remote.put(writer.tensor).wait();
          EXPECT_FALSE(why.ok());
          EXPECT_NE(why.code(), Code::timeout) << why.text();
        },
        settings().with(Setting::log, "off"));
  }
}

/// A graph that is gone gives back its words, its tensors and the place of its wait.
TEST_F(GraphEnds, AGraphThatGoesGivesBackAllThatItHeld) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, graph_spec({}));
    const auto used = [&] {
      for (const auto& arena : world.report().arenas)
        if (arena.sort == "GPU 0") return arena.used_bytes;
      return std::uint64_t{0};
    };
    put(world, remote, 1);
    slot.wait().value();
    {
      const Reader reader(world, slot);  // makes the words' page
    }
    const std::uint64_t before = used();
#if defined(__SANITIZE_THREAD__)
    constexpr int kGraphs = 500;  // it is slow here
#else
    constexpr int kGraphs = 9000;  // of two words each: more than there are
#endif
    for (int i = 0; i < kGraphs; ++i) {
      OwnStream own(world, 0, 1, 1);
      OwnGraph graph(own, CaptureMode::relaxed);
      const Arrival arrival = slot.wait_on(own.get()).value();
      if (i == 0) {
        EXPECT_GT(used(), before);
      }
      graph.end();
    }
    (void)world.allocate(DType::f32, {1}, Memory::gpu(0));  // some call that gives back
    EXPECT_EQ(used(), before);
  });
}

TEST_F(GraphEnds, TwoExecutablesAtOnceAreAnError) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer reports the race that overlapping replays are";
#endif
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    put(world, remote, 1);
    slot.wait().value();
    Reader reader(world, slot);
    OwnStream other(world, 0, kInGraph, 1);
    const GraphExec second = reader.graph->instantiate();
    reader.graph->launch();
    reader.graph->launch(second, other.handle());
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    Status why;
    while (why.ok() && std::chrono::steady_clock::now() < until)
      why = slot.wait(Deadline::after(milliseconds(10))).status().code() == Code::bad_argument
                ? Status(ErrorDetail{.code = Code::bad_argument})
                : Status();
    EXPECT_EQ(why.code(), Code::bad_argument);
    put(world, remote, 2);
    reader.own.synchronize();
    other.synchronize();
    EXPECT_OK(driver().destroy_graph_exec(second));
  });
}

}  // namespace
}  // namespace weft::tests
