#include "benchmarks/harness/blocks.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace weft::bench {
namespace {

struct Ran {
  std::uint32_t variant;
  std::uint32_t operations;
  bool operator==(const Ran&) const = default;
};

constexpr Idle kSoonYield{100, [] { std::this_thread::yield(); }};
constexpr Pace kBrief{.block = std::chrono::microseconds(50),
                      .budget = std::chrono::microseconds(500)};

TEST(Conductor, LeaderAndFollowerRunTheSameBlocksInTheSameOrder) {
  FlagArea leaders{};
  FlagArea followers{};
  std::vector<Ran> led;
  std::vector<Ran> followed;
  const auto log = [](std::vector<Ran>& into) {
    return [&into](Block block) {
      into.push_back({block.variant, block.operations});
      return 1.0;
    };
  };
  constexpr int kSeries = 200;
  {
    const std::jthread follower([&] {
      Conductor conductor(followers, leaders, kSoonYield);
      for (int i = 0; i < kSeries; ++i) conductor.follow(log(followed));
    });
    Conductor conductor(leaders, followers, kSoonYield);
    const std::uint32_t round[] = {0, 1, 0, 2};
    constexpr Pace kShortest{.block = std::chrono::microseconds(1),
                             .budget = std::chrono::microseconds(0),
                             .least_rounds = 1};
    for (int i = 0; i < kSeries; ++i) conductor.lead(round, kShortest, log(led));
  }
  EXPECT_EQ(led, followed);
  EXPECT_GE(led.size(), 4U * kSeries);
}

TEST(Conductor, EveryFollowerRunsWhatTheLeaderAsksFor) {
  FlagArea leaders{};
  FlagArea followers[3]{};
  int runs[3]{};
  int led = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        Conductor(followers[i], leaders, kSoonYield).follow([&, i](Block) {
          ++runs[i];
          return 0.0;
        });
      });
    Conductor conductor(leaders, Partners{&followers[0], &followers[1], &followers[2]}, kSoonYield);
    const std::uint32_t round[] = {0, 1};
    conductor.lead(round, kBrief, [&](Block) {
      ++led;
      return 1.0;
    });
  }
  for (const int run : runs) EXPECT_EQ(run, led);
}

TEST(Conductor, SamplesStandUnderTheirPlaceInTheRound) {
  FlagArea leaders{};
  FlagArea followers{};
  const std::jthread follower(
      [&] { Conductor(followers, leaders, kSoonYield).follow([](Block) { return 0.0; }); });
  const std::uint32_t round[] = {7, 3};
  const auto samples = Conductor(leaders, followers, kSoonYield).lead(round, kBrief, [](Block b) {
    return static_cast<double>(b.variant);
  });
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_GE(samples[0].size(), kBrief.least_rounds);
  EXPECT_EQ(samples[0], std::vector<double>(samples[0].size(), 7));
  EXPECT_EQ(samples[1], std::vector<double>(samples[0].size(), 3));
}

TEST(Conductor, SlowOperationsMakeBlocksOfOne) {
  FlagArea leaders{};
  FlagArea followers{};
  const std::jthread follower(
      [&] { Conductor(followers, leaders, kSoonYield).follow([](Block) { return 0.0; }); });
  std::uint32_t last = 0;
  const std::uint32_t round[] = {0};
  Conductor(leaders, followers, kSoonYield).lead(round, kBrief, [&last](Block block) {
    last = block.operations;
    return 1000.0;
  });
  EXPECT_EQ(last, 1U);
}

TEST(Conductor, AFollowerThatSleepsMakesNoBlockShorter) {
  constexpr Idle kSlow{0, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }};
  FlagArea leaders{};
  FlagArea followers{};
  const std::jthread follower(
      [&] { Conductor(followers, leaders, kSlow).follow([](Block) { return 0.0; }); });
  std::uint32_t last = 0;
  const std::uint32_t round[] = {0};
  Conductor(leaders, followers, kSoonYield).lead(round, kBrief, [&last](Block block) {
    last = block.operations;
    return 0.5;
  });
  EXPECT_EQ(last, 100U);  // of half a microsecond, in 50
}

}  // namespace
}  // namespace weft::bench
