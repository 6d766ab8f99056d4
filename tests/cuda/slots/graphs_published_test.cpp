// Published versions in captured graphs: each replay publishes what its tensor holds then.
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/slots/graphs.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

PublishedSpec edition(Memory memory, std::uint32_t depth = 3, Flow flow = Flow::credits) {
  return {.name = "news", .shape = {kInGraph}, .depth = depth, .flow = flow, .memory = memory};
}

/// A graph that fills the slot's tensor with counted(kInGraph, 0), then 1 and so on, and publishes
/// it.
struct GraphPublisher {
  GraphPublisher(World& world, PublishedSlot& slot, Deadline deadline = {})
      : own(world, 0, kInGraph, 1), graph(std::make_unique<OwnGraph>(own)) {
    const Tensor tensor = slot.next().value();
    capture_fill(*graph, own, tensor);
    EXPECT_OK_STATUS(slot.publish(own.get(), deadline));
    graph->end();
  }
  void replay() {
    graph->launch();
    own.synchronize();
  }

  OwnStream own;
  std::unique_ptr<OwnGraph> graph;
};

std::vector<float> viewed(World& world, PublishedReader& reader) {
  return elements_of(world, reader.view().value().tensor());
}

class GraphsPublished : public OnStandInStreams {
 protected:
  /// A rank that publishes and reads.
  static void run(const std::function<void(World&, PublishedSlot&, PublishedReader&)>& body,
                  std::uint32_t depth = 3, Flow flow = Flow::credits) {
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      PublishedSlot slot = world.expose_published(edition(Memory::gpu(0), depth, flow));
      PublishedReader reader = world.attach_published(0, "news");
      body(world, slot, reader);
    });
  }
  /// What is seen of versions that replays, or calls behind a stream, publish.
  static Seen publish(std::size_t turns, bool by_graphs, std::uint32_t depth, Flow flow) {
    Seen seen;
    run(
        [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
          std::optional<GraphPublisher> publisher;
          if (by_graphs) publisher.emplace(world, slot);
          OwnStream own(world, 0, kInGraph, 1);
          for (std::size_t turn = 0; turn < turns; ++turn) {
            if (publisher) {
              publisher->replay();
            } else {
              own.fill(0, slot.next().value(), static_cast<float>(turn));
              EXPECT_OK_STATUS(slot.publish(own.get()));
              own.synchronize();
            }
            const Arrival arrival = reader.view().value();
            EXPECT_EQ(arrival.sequence(), turn + 1);
            seen.push_back(elements_of(world, arrival.tensor()));
          }
        },
        depth, flow);
    return seen;
  }
  /// Rank 0 queues replays, and rank 1 views what it finds. Returns whether each version was whole,
  /// and the last one was found.
  static bool views_whole_versions(Over fabric, std::uint64_t seed = 1) {
    constexpr std::size_t kTurns = 7;
    bool is_whole = true;
    const auto body = [&](World& world) {
      if (world.rank() == 0) {
        PublishedSlot slot = world.expose_published(edition(Memory::gpu(0)));
        GraphPublisher publisher(world, slot);
        meet(world, "attached");
        for (std::size_t turn = 0; turn < kTurns; ++turn) publisher.graph->launch();
        meet(world, "seen");
        publisher.own.synchronize();
        const EdgeReport edge = edge_of(world, "news", Role::publishes);
        EXPECT_EQ(edge.counters.transfers, kTurns);
        EXPECT_EQ(edge.counters.device_copies, kTurns);
      } else {
        PublishedReader reader = world.attach_published(0, edition({}));
        meet(world, "attached");
        for (std::uint64_t seen = 0; seen < kTurns;) {
          const Arrival arrival = reader.view().value();
          EXPECT_GT(arrival.sequence(), seen);
          seen = arrival.sequence();
          is_whole = elements_of(world, arrival.tensor()) ==
                         counted(kInGraph, static_cast<float>(seen - 1)) &&
                     is_whole;
        }
        meet(world, "seen");
      }
      meet(world);
    };
    run_over(fabric, body, seed);
    return is_whole;
  }
  static void expect_told(const Status& status, Code code,
                          std::initializer_list<std::string> words) {
    EXPECT_TRUE(tells(status, code, words)) << status.text();
  }
};

/// On a real driver, too.
class GraphsPublishedOnAnyDriver : public GraphsPublished {
 protected:
  void SetUp() override { OnGpus::SetUp(); }
};

TEST_F(GraphsPublishedOnAnyDriver, ReplayedAHundredTimesEqualAHundredSteps) {
  if (control() != nullptr) {
    ASSERT_EQ(control()->restart({.delay = std::chrono::microseconds(200)}),
              std::vector<std::string>{});
  }
  for (const auto& [depth, flow] : {std::pair{1U, Flow::credits}, std::pair{3U, Flow::credits},
                                    std::pair{2U, Flow::unsafe_synchronous}}) {
    SCOPED_TRACE(depth);
    const Seen steps = publish(100, false, depth, flow);
    EXPECT_EQ(steps, all_counted(kInGraph, 100));
    EXPECT_EQ(publish(100, true, depth, flow), steps);
  }
}

TEST_F(GraphsPublished, ShowWholeVersionsOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;
    SCOPED_TRACE(name_of(fabric));
    ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
    EXPECT_TRUE(views_whole_versions(fabric));
    EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// As many seeds as WEFT_TEST_STREAM_SEEDS says.
TEST_F(GraphsPublished, AreWholeHoweverLateTheyAre) {
  const char* const wanted = std::getenv("WEFT_TEST_STREAM_SEEDS");
  const std::uint64_t seeds = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(2)}),
        std::vector<std::string>{});
    ASSERT_TRUE(views_whole_versions(seed % 2 == 0 ? Over::tcp : Over::shm, seed));
    ASSERT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// Planted: the driver says that all copies have ended, and streams go on too early.
TEST_F(GraphsPublished, AreCaughtIfTheyDoNotWaitForTheirCopies) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_EQ(control()->restart({.seed = seed, .delay = milliseconds(2)}),
              std::vector<std::string>{});
    control()->claim_ends(1000);
    wrong += views_whole_versions(Over::shm, seed) ? 0 : 1;
    (void)control()->take_complaints();
  }
  EXPECT_GT(wrong, 0);
}

/// Planted: streams do not wait for their words, as if none had been reset.
TEST_F(GraphsPublished, AreCaughtIfTheirWordsAreNotReset) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_EQ(control()->restart({.seed = seed, .delay = milliseconds(2)}),
              std::vector<std::string>{});
    control()->forget_words(1000);
    run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
      GraphPublisher publisher(world, slot);
      for (int turn = 0; turn < 7; ++turn) publisher.graph->launch();
      publisher.own.synchronize();
      Status why;
      EXPECT_TRUE(soon([&] {
        const auto arrival = reader.view(Deadline::after(milliseconds(50)));
        if (!arrival.ok()) return true;
        const auto turn = static_cast<float>(arrival.value().sequence() - 1);
        if (elements_of(world, arrival.value().tensor()) != counted(kInGraph, turn)) ++wrong;
        return false;
      }));
      if (!slot.next().ok()) ++wrong;
    });
    (void)control()->take_complaints();
  }
  EXPECT_GT(wrong, 0);
}

TEST_F(GraphsPublished, AreNotVisibleBeforeTheirStreamHasCome) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphPublisher publisher(world, slot);
    EXPECT_FALSE(reader.ready()) << "a capture publishes nothing";
    Gate gate;
    gate.hold(publisher.own);
    publisher.graph->launch();
    EXPECT_EQ(reader.view(Deadline::after(milliseconds(50))).status().code(), Code::timeout);
    gate.open();
    EXPECT_EQ(viewed(world, reader), counted(kInGraph, 0));
  });
}

TEST_F(GraphsPublished, TakeTurnsWithCallsOutsideOfThem) {
  for (const auto& [depth, flow] : {std::pair{1U, Flow::credits}, std::pair{2U, Flow::credits},
                                    std::pair{2U, Flow::unsafe_synchronous}})
    run(
        [](World& world, PublishedSlot& slot, PublishedReader& reader) {
          OwnStream own(world, 0, kInGraph, 2);
          own.fill(0, slot.next().value(), 500);
          EXPECT_OK_STATUS(slot.publish(own.get()));
          EXPECT_EQ(viewed(world, reader), counted(kInGraph, 500));
          GraphPublisher publisher(world, slot);
          for (int turn = 0; turn < 5; ++turn) {
            publisher.replay();
            EXPECT_EQ(viewed(world, reader), counted(kInGraph, static_cast<float>(turn)));
            own.fill(0, slot.next().value(), 600);
            own.synchronize();
            EXPECT_OK_STATUS(slot.publish());
            EXPECT_EQ(viewed(world, reader), counted(kInGraph, 600));
            own.fill(1, slot.next().value(), 700);
            EXPECT_OK_STATUS(slot.publish(own.get()));
            const Arrival arrival = reader.view().value();
            EXPECT_EQ(elements_of(world, arrival.tensor()), counted(kInGraph, 700));
            EXPECT_EQ(arrival.sequence(), 4U + 3U * static_cast<std::uint64_t>(turn));
            own.synchronize();
          }
        },
        depth, flow);
}

/// Eager versions that are behind a graph's on the stream come after it, and those before it ahead.
TEST_F(GraphsPublished, KeepTheOrderOfTheStream) {
  ASSERT_EQ(control()->restart({.delay = milliseconds(1)}), std::vector<std::string>{});
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        GraphPublisher publisher(world, slot);
        OwnStream& own = publisher.own;
        OwnStream values(world, 0, kInGraph, 2);
        const Tensor first = tensor_of(world, Memory::gpu(0), counted(kInGraph, 100));
        for (int turn = 0; turn < 3; ++turn) {
          world.copy(first, slot.next().value(), own.get());
          EXPECT_OK_STATUS(slot.publish(own.get()));
          publisher.graph->launch();
          if (turn != 1) continue;
          world.copy(first, slot.next().value(), own.get());
          EXPECT_OK_STATUS(slot.publish(own.get()));
        }
        own.synchronize();
        const Arrival arrival = reader.view().value();
        EXPECT_EQ(arrival.sequence(), 7U);
        EXPECT_EQ(elements_of(world, arrival.tensor()), counted(kInGraph, 2));
      },
      8);
}

TEST_F(GraphsPublished, MakeNothingInTheSteadyState) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphPublisher publisher(world, slot);
    expect_steady(*control(), 1, [&] {
      publisher.graph->launch();
      reader.view().value();
    });
    publisher.own.synchronize();
  });
}

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
