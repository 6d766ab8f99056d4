// Published versions in captured graphs: each replay publishes what its tensor holds then.
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
    publisher.own.synchronize();  // before the gate goes
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

}  // namespace
}  // namespace weft::tests
