// Whole worlds that split their group: the messages of many ranks, and ranks that die meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "tests/sim/simulated_job.hpp"

namespace weft::tests {
namespace {

std::uint64_t control_messages(const World& world) {
  std::uint64_t messages = 0;
  for (const PathReport& path : world.report().paths) messages += path.counters.control_messages;
  return messages;
}

TEST(SplitGroup, CostsEachRankFewMessagesHoweverManyTheyAre) {
  for (const int ranks : {16, 128}) {
    std::uint64_t most = 0;
    SimJob job(ranks, {.event_limit = 1'000'000'000}, simulated_settings());
    const SimOutcome outcome = job.run([&](World& world) {
      const std::uint64_t before = control_messages(world);
      const Group half = world.group().split(world.rank() % 2, -world.rank()).value();
      EXPECT_EQ(half.size(), ranks / 2);
      EXPECT_EQ(half.members()[0], ranks - 2 + world.rank() % 2);
      most = std::max(most, control_messages(world) - before);
    });
    EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
    const auto rounds =
        static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
    EXPECT_LE(most, 12 * rounds) << ranks << " ranks";
    EXPECT_GE(most, rounds) << ranks << " ranks";
  }
}

TEST(SplitGroup, EndsOnEverySurvivorWhenRanksDie) {
  const std::uint64_t first = std::random_device{}() * std::uint64_t{10'000};
  int split = 0;
  int failed = 0;
  for (std::uint64_t seed = first; seed < first + 300 && !testing::Test::HasFailure(); ++seed) {
    SimOptions options{.seed = seed};
    options.faults.delayed = 0.2;
    options.faults.kills = static_cast<int>(seed % 3);
    options.faults.kill_within = 200;
    const int ranks = static_cast<int>(2 + seed % 6);
    SimJob job(ranks, options, simulated_settings());
    (void)job.run([&](World& world) {
      const auto part = world.group().split(world.rank() % 2);
      if (!part.ok()) {
        EXPECT_TRUE(part.code() == Code::peer_failed || part.code() == Code::peer_left)
            << "seed " << seed << ": " << part.status().text();
        ++failed;
        return;
      }
      EXPECT_EQ(part->size(), (ranks + 1 - world.rank() % 2) / 2) << "seed " << seed;
      ++split;
    });
  }
  EXPECT_GT(split, 300);
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace weft::tests
