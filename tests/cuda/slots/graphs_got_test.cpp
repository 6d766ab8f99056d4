// Gets of published versions in captured graphs: each replay reads the newest version then.
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/slots/graphs_got.hpp"
#include "tests/cuda/slots/graphs_published.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

/// On a real driver, too.
class GraphsGotOnAnyDriver : public GraphsGot {
 protected:
  void SetUp() override { OnGpus::SetUp(); }
};

TEST_F(GraphsGotOnAnyDriver, ReplayedAHundredTimesEqualAHundredSteps) {
  if (control() != nullptr) {
    ASSERT_EQ(control()->restart({.delay = std::chrono::microseconds(200)}),
              std::vector<std::string>{});
  }
  for (const auto& [depth, flow] : {std::pair{1U, Flow::credits}, std::pair{3U, Flow::credits},
                                    std::pair{2U, Flow::unsafe_synchronous}}) {
    SCOPED_TRACE(depth);
    const Seen steps = get(100, false, depth, flow);
    EXPECT_EQ(steps, all_counted(kInGraph, 100));
    EXPECT_EQ(get(100, true, depth, flow), steps);
  }
}

TEST_F(GraphsGot, BringTheirVersionsOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;
    SCOPED_TRACE(name_of(fabric));
    ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
    EXPECT_EQ(exchange(fabric), all_counted(kInGraph, kTurns));
    EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// As many seeds as WEFT_TEST_STREAM_SEEDS says.
TEST_F(GraphsGot, AreRightHoweverLateTheyAre) {
  const char* const wanted = std::getenv("WEFT_TEST_STREAM_SEEDS");
  const std::uint64_t seeds = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(2)}),
        std::vector<std::string>{});
    ASSERT_EQ(exchange(seed % 2 == 0 ? Over::tcp : Over::shm, seed), all_counted(kInGraph, kTurns));
    ASSERT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// Planted: the driver says that all has ended, or streams do not wait for their words, as if none
/// had been reset.
TEST_F(GraphsGot, AreCaughtIfTheyDoNotWait) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  for (const bool words : {false, true}) {
    int wrong = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      ASSERT_EQ(control()->restart({.seed = seed, .delay = milliseconds(2)}),
                std::vector<std::string>{});
      run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        if (words) control()->forget_words(1000);
        GraphGetter getter(world, reader);
        if (!words) control()->claim_ends(1000);
        for (int turn = 0; turn < 5; ++turn) {
          publish_got(slot, static_cast<float>(turn));
          getter.replay();
        }
        wrong += getter.seen == all_counted(kInGraph, 5) ? 0 : 1;
        // A get that goes on still keeps the GPU, beyond the world.
        EXPECT_TRUE(soon([] { return !StreamWords::any_waits(); }));
        reader.see_again();
        (void)reader.view();
      });
      (void)control()->take_complaints();
    }
    EXPECT_GT(wrong, 0) << words;
  }
}

TEST_F(GraphsGot, MakeNothingInTheSteadyState) {
  for (const Over fabric : all_fabrics()) {
    if (fabric != Over::shm && fabric != Over::tcp && fabric != Over::nics_with_dma_buf) continue;
    SCOPED_TRACE(name_of(fabric));
    ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
    EXPECT_EQ(exchange(fabric, 1, true), all_counted(kInGraph, 14));
  }
}

TEST_F(GraphsGot, WaitForTheStreamAndForAVersionThatWasNotSeen) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphGetter getter(world, reader);
    Gate gate;
    publish_got(slot, 1);
    gate.hold(getter.own);
    getter.graph->launch();
    getter.graph->launch();
    std::this_thread::sleep_for(milliseconds(20));
    publish_got(slot, 2);
    gate.open();
    EXPECT_TRUE(soon([&] { return getter.done == 1; }));
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(getter.done, 1U) << "the newest version was seen";
    publish_got(slot, 3);
    getter.own.synchronize();
    EXPECT_EQ(getter.seen, all_counted(kInGraph, 2, 2));
    reader.see_again();
    EXPECT_EQ(getter.replay(), 0U);
    EXPECT_EQ(getter.seen.back(), counted(kInGraph, 3));
  });
}

TEST_F(GraphsGot, TakeTurnsWithCallsOfTheThread) {
  for (const auto& [depth, flow] : {std::pair{2U, Flow::credits}, std::pair{4U, Flow::credits},
                                    std::pair{2U, Flow::unsafe_synchronous}})
    run(
        [](World& world, PublishedSlot& slot, PublishedReader& reader) {
          GraphGetter getter(world, reader);
          const Tensor into = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
          const Tensor host = world.allocate(DType::f32, {kInGraph});
          OwnStream own(world, 0, kInGraph, 1);
          float version = 0;
          const auto publish = [&] { publish_got(slot, ++version); };
          for (int turn = 0; turn < 5; ++turn) {
            publish();
            EXPECT_EQ(getter.replay(), 0U);
            EXPECT_EQ(getter.seen.back(), counted(kInGraph, version));
            publish();
            EXPECT_EQ(elements_of(world, reader.view().value().tensor()),
                      counted(kInGraph, version));
            publish();
            EXPECT_OK_STATUS(reader.get(into, own.get()));
            EXPECT_NE(reader.outcome(), nullptr);
            own.read(0, into);
            own.synchronize();
            EXPECT_EQ(own.elements(0), counted(kInGraph, version));
            publish();
            EXPECT_OK_STATUS(reader.get(into));
            EXPECT_EQ(seen_by_application(world, into), counted(kInGraph, version));
            publish();
            EXPECT_OK_STATUS(reader.get(host));
            EXPECT_EQ(elements_of(world, host), counted(kInGraph, version));
          }
        },
        depth, flow);
}

/// Replays that wait and a thread that reads meanwhile: each goes on, and none sees a part.
TEST_F(GraphsGot, GoOnBesideAThreadThatReads) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
        constexpr std::size_t kRounds = 30;
        GraphGetter getter(world, reader);
        std::atomic<bool> is_over{false};
        std::thread owner([&] {
          for (float version = 0; !is_over; ++version) {
            publish_got(slot, version);
            std::this_thread::sleep_for(milliseconds(1));
          }
        });
        for (std::size_t round = 0; round < kRounds; ++round) getter.graph->launch();
        for (std::size_t round = 0; round < kRounds; ++round) {
          const Arrival arrival = reader.view().value();
          const auto seen = arrival.tensor().as<float>();
          EXPECT_EQ((std::vector<float>(seen.begin(), seen.end())), counted(kInGraph, seen[0]));
        }
        getter.own.synchronize();
        is_over = true;
        owner.join();
        EXPECT_EQ(getter.outcomes, std::vector<std::uint32_t>(kRounds, 0));
        for (std::size_t round = 0; round < kRounds; ++round) {
          EXPECT_EQ(getter.seen[round], counted(kInGraph, getter.seen[round][0]));
          if (round != 0) {
            EXPECT_GT(getter.seen[round][0], getter.seen[round - 1][0]);
          }
        }
      },
      4);
}

/// weft's threads move versions meanwhile.
TEST_F(GraphsGot, AndPublicationsSpoilNoCaptureOfAnotherThread) {
  constexpr std::size_t kRounds = 10;
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    PublishedSlot slot = world.expose_published(edition(Memory::gpu(0)));
    PublishedReader reader = world.attach_published(0, "news");
    GraphPublisher publisher(world, slot);
    GraphGetter getter(world, reader);
    OwnStream other(world, 0, kInGraph, 1);
    for (std::size_t round = 1; round <= kRounds; ++round) {
      OwnGraph captured(other, CaptureMode::global);
      publisher.graph->launch();
      getter.graph->launch();
      EXPECT_TRUE(soon([&] { return getter.done == round; }));
      captured.call([] {});
      captured.end();
    }
    publisher.own.synchronize();
    getter.own.synchronize();
    EXPECT_EQ(getter.seen, all_counted(kInGraph, kRounds));
  });
}

}  // namespace
}  // namespace weft::tests
