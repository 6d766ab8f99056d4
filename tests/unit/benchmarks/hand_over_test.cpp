#include "benchmarks/harness/hand_over.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "benchmarks/harness/ping.hpp"

namespace weft::bench {
namespace {

constexpr Idle kSoonYield{100, [] { std::this_thread::yield(); }};
constexpr int kReceivers = 3;
constexpr int kHandOvers = 300;

/// As it is when the launcher was killed.
TEST(Waits, ForAPartnerThatIsGoneEndTheProcessWithALine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        set_patience(std::chrono::milliseconds(20));
        const FlagLine line{};
        await(line, 1, kSoonYield);
      },
      testing::ExitedWithCode(1), "another rank of this benchmark has not gone on for 0.02 s");
}

TEST(HandOver, TheClockStopsWhenTheLastReceiverHasTheTensor) {
  FlagArea senders{};
  std::array<FlagArea, kReceivers> receivers{};
  std::atomic<std::uint64_t> tensor{0};
  std::atomic<int> taken{0};
  std::atomic<int> inspected{0};
  {
    std::vector<std::jthread> threads;
    for (FlagArea& mine : receivers)
      threads.emplace_back([&] {
        HandOver hand_over(mine, senders, kSoonYield);
        for (int i = 0; i < kHandOvers; ++i)
          hand_over.receive([] {},
                            [&] {
                              while (tensor.load() != hand_over.number()) std::this_thread::yield();
                              ++taken;
                            },
                            [&] {
                              std::this_thread::yield();
                              ++inspected;
                            });
      });
    HandOver hand_over(senders, {&receivers[0], &receivers[1], &receivers[2]}, kSoonYield);
    for (int i = 1; i <= kHandOvers; ++i) {
      const double spent = hand_over.send(
          [&] { EXPECT_EQ(inspected, (i - 1) * kReceivers) << "rewritten while still looked at"; },
          [&] { tensor = hand_over.number(); });
      EXPECT_GE(spent, 0);
      EXPECT_EQ(taken, i * kReceivers) << "the clock stopped before all had it";
    }
  }
}

TEST(Ping, BringsEveryPayloadThereAndBack) {
  FlagArea leaders{};
  FlagArea followers{};
  const std::jthread follower([&] {
    Ping ping(followers, leaders, false, kSoonYield);
    ping.run(kHandOvers);
    EXPECT_TRUE(ping.right());
  });
  Ping ping(leaders, followers, true, kSoonYield);
  EXPECT_GT(ping.run(kHandOvers), 0);
  EXPECT_TRUE(ping.right());
  EXPECT_EQ(leaders.ping.payload[0], static_cast<std::uint64_t>(kHandOvers));
}

TEST(Ping, NoticesAWrongPayload) {
  FlagArea leaders{};
  FlagArea followers{};
  followers.ping.payload[0] = 7;
  raise_to(followers.ping, 1);
  Ping ping(leaders, followers, true, kSoonYield);
  ping.run(1);
  EXPECT_FALSE(ping.right());
}

}  // namespace
}  // namespace weft::bench
