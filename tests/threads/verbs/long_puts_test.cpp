// Tensors that need more work requests than a queue holds: neither the thread that puts them nor
// another one is held up.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "tests/threads/verbs/nics.hpp"

namespace weft::tests {
namespace {

constexpr std::int64_t kBytes = 300'001;  ///< 294 requests of 1 KiB
constexpr auto kBrief = std::chrono::milliseconds(20);
const SlotSpec kLong{.name = "long", .dtype = DType::u8, .shape = {kBytes}, .depth = 1};
const SlotSpec kShort{.name = "short", .dtype = DType::i64, .shape = {4}, .depth = 2};

Config in_small_requests() {
  return verbs_settings().with(Setting::ib_max_message, "1k").with(Setting::queue_depth, "32");
}

Tensor filled(World& world, const SlotSpec& spec, std::uint64_t pattern) {
  auto tensor = world.allocate(spec.dtype, spec.shape);
  fill(tensor, pattern);
  return tensor;
}

/// Takes each tensor when the writer allows.
void owner_of_two(World& world, Meeting& meeting) {
  Slot slot = world.expose(kLong);
  for (std::uint64_t n = 1; n <= 2; ++n) {
    meeting.wait();
    const auto arrival = slot.wait();
    ASSERT_TRUE(arrival.ok()) << arrival.status().text();
    EXPECT_TRUE(holds(arrival->tensor(), n));
  }
}

TEST(ALongPut, HoldsUpNeitherItsCallerNorTheProgressThread) {
  for (const char* queues : {"0", "1"}) {
    SCOPED_TRACE(std::string("WEFT_CQS=") + queues);
    NicJob job;
    Meeting meeting(2);
    Meeting leaving(2);
    job.run(3, in_small_requests().with(Setting::cqs, queues), [&](World& world) {
      if (world.rank() == 0) return owner_of_two(world, meeting);
      if (world.rank() == 2) return leaving.wait();
      RemoteSlot remote = world.attach(0, kLong);
      const Tensor first = filled(world, kLong, 1);
      const Tensor second = filled(world, kLong, 2);
      remote.put(first).wait().or_throw();
      Request request = remote.put(second);
      const std::uint64_t before = job.posted(1);
      job.network.hold(1);
      meeting.wait();
      // Once there is a credit, the progress thread posts it, as far as there is room.
      EXPECT_TRUE(soon([&] { return job.posted(1) > before + 8; }));
      leaving.wait();
      const std::vector<int> who{2};
      EXPECT_TRUE(soon([&] { return world.alive(who).code() == Code::peer_left; }));
      EXPECT_EQ(request.wait(Deadline::after(kBrief)).code(), Code::timeout);
      job.network.hold(1, false);
      EXPECT_EQ(request.wait().text(), "ok");
      meeting.wait();
    });
  }
}

TEST(ALongPut, LetsOtherSlotsGoBetweenAndItsOwnNotOvertake) {
  SlotSpec spec = kLong;
  spec.depth = 2;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    NicJob job({.seed = seed},
               {.faults = {.delayed = 0.02, .late = 0.1, .scattered = 0.1, .full = 0.1}});
    job.run(2, in_small_requests().with(Setting::qps_per_peer, seed == 3 ? "2" : "1"),
            [&](World& world) {
              constexpr std::uint64_t kRounds = 6;
              if (world.rank() == 0) {
                Slot large = world.expose(spec);
                Slot small = world.expose(kShort);
                for (std::uint64_t n = 1; n <= kRounds; ++n) {
                  EXPECT_TRUE(holds(large.wait().value().tensor(), n));
                  EXPECT_TRUE(holds(small.wait().value().tensor(), n));
                }
                // The notice of its leave queues behind all that was put.
                EXPECT_EQ(large.wait().code(), Code::peer_left);
                EXPECT_EQ(small.wait().code(), Code::peer_left);
                return;
              }
              RemoteSlot large = world.attach(0, spec);
              RemoteSlot small = world.attach(0, kShort);
              std::vector<Tensor> kept;
              for (std::uint64_t n = 1; n <= kRounds; ++n) {
                kept.push_back(filled(world, spec, n));
                auto first = large.put(kept.back());
                auto second = small.put(filled(world, kShort, n));
                if (n % 2 == 0) first.wait().or_throw();
                second.wait().or_throw();
              }
            });
  }
}

TEST(ALongPut, ThatFailsHalfWayGivesItsMemoryBack) {
  NicJob job;
  Meeting meeting(2);
  job.run(2, in_small_requests(), [&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(kLong);
      meeting.wait();
      EXPECT_FALSE(slot.wait().ok());
      meeting.wait();
      return;
    }
    std::vector<std::uint8_t> memory(kBytes);
    std::atomic<int> given_back{0};
    RemoteSlot remote = world.attach(0, kLong);
    job.network.hold(1);
    Request request = remote.put(
        world.adopt(memory.data(), DType::u8, {kBytes}, [&given_back] { ++given_back; }));
    EXPECT_FALSE(request.test());
    EXPECT_EQ(given_back, 0);
    job.network.isolate(0);
    job.network.hold(1, false);
    meeting.wait();
    EXPECT_EQ(request.wait().code(), Code::path_failed);
    EXPECT_TRUE(soon([&] { return given_back == 1; }));
    meeting.wait();
  });
}

}  // namespace
}  // namespace weft::tests
