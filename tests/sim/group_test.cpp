// Whole worlds that shrink their group while ranks die and connections break.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/sim/simulated_job.hpp"

namespace weft::tests {
namespace {

using std::chrono::microseconds;

struct Answer {
  std::vector<int> members;
  std::uint64_t id = 0;
  std::uint32_t epoch = 0;
  bool operator==(const Answer&) const = default;
};

/// The answers that the ranks got, by rank.
struct Told {
  std::map<int, Answer> answers;
  std::map<int, Status> refusals;
};

Told shrink_all(int ranks, const SimOptions& options) {
  Told told;
  SimJob job(ranks, options, simulated_settings());
  const SimOutcome outcome = job.run([&](World& world) {
    // Not all at once: other ranks ask some of the ranks before these ask.
    job.sleep(world, microseconds(50 * (world.rank() * 7 % 5)));
    const auto shrunk = world.group().shrink();
    if (!shrunk.ok()) {
      told.refusals[world.rank()] = shrunk.status();
      return;
    }
    const auto members = shrunk->members();
    told.answers[world.rank()] = {{members.begin(), members.end()}, shrunk->id(), shrunk->epoch()};
    EXPECT_EQ(shrunk->members()[static_cast<std::size_t>(shrunk->rank())], world.rank());
  });
  // A rank that died while it waited holds no answer against the others.
  for (const int rank : outcome.killed) told.answers.erase(rank);
  for (const int rank : outcome.killed) told.refusals.erase(rank);
  for (const std::string& failure : outcome.failures)
    EXPECT_NE(failure.find("join"), std::string::npos) << outcome.text << ": " << failure;
  return told;
}

std::uint64_t first_seed() { return std::random_device{}() * std::uint64_t{10'000}; }

TEST(ShrunkGroup, OfAllRanksIsAllOfThem) {
  const Told told = shrink_all(5, {});
  ASSERT_EQ(told.answers.size(), 5U);
  EXPECT_EQ(told.answers.at(3).members, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(told.answers.at(3).epoch, 1U);
}

TEST(ShrunkGroup, IsTheSameForAllSurvivorsWheneverRanksDie) {
  const std::uint64_t first = first_seed();
  int answers = 0;
  for (std::uint64_t seed = first; seed < first + 1000 && !testing::Test::HasFailure(); ++seed) {
    SimOptions options{.seed = seed};
    options.faults.delayed = 0.2;
    options.faults.paused = 0.01;
    options.faults.kills = static_cast<int>(seed % 4);
    options.faults.kill_within = 60;
    const Told told = shrink_all(static_cast<int>(2 + seed % 5), options);
    EXPECT_TRUE(told.refusals.empty())
        << "seed " << seed << ": " << told.refusals.begin()->second.text();
    for (const auto& [rank, answer] : told.answers) {
      EXPECT_EQ(answer, told.answers.begin()->second) << "seed " << seed << ": rank " << rank;
      ++answers;
    }
  }
  EXPECT_GT(answers, 1000);
}

TEST(ShrunkGroup, IsTheSameForAllThatGoOnWhenConnectionsBreak) {
  const std::uint64_t first = first_seed();
  int answers = 0;
  int refused = 0;
  for (std::uint64_t seed = first; seed < first + 500 && !testing::Test::HasFailure(); ++seed) {
    SimOptions options{.seed = seed};
    options.faults.drops = static_cast<int>(2 + seed % 4);
    options.faults.drop_within = microseconds(400);
    const Told told = shrink_all(static_cast<int>(3 + seed % 3), options);
    for (const auto& [rank, answer] : told.answers) {
      EXPECT_EQ(answer, told.answers.begin()->second) << "seed " << seed << ": rank " << rank;
      ++answers;
    }
    for (const auto& [rank, status] : told.refusals) {
      EXPECT_TRUE(status.code() == Code::fenced || status.code() == Code::partitioned)
          << "seed " << seed << ": rank " << rank << ": " << status.text();
      ++refused;
    }
  }
  EXPECT_GT(answers, 500);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace weft::tests
