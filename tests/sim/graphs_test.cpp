// Random graphs in executors on simulated ranks: whatever a fabric may do, the bits are those of
// one rank; where ranks die, the others' steps end with an error that names a rank.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "p2p/transport/sim/random.hpp"
#include "tests/sim/fresh_seeds.hpp"
#include "tests/threads/dataflow/random_steps.hpp"

namespace weft::tests {
namespace {

using dataflow::EdgeWay;
using dataflow::RandomSteps;

struct Seen {
  std::size_t right = 0;  ///< fetched tensors
  int lost = 0;           ///< ranks whose step ended with a loss
  int deaths = 0;         ///< graphs in which a rank died
};

bool is_loss(const Status& status) {
  return (status.code() == Code::peer_failed || status.code() == Code::peer_left ||
          status.code() == Code::closed) &&
         status.detail().peer >= 0;
}

/// One graph, whose ranks may fail by losses alone if `kills` ranks die.
void play(std::uint64_t seed, int kills, Seen& seen, bool crowded = false) {
  p2p::sim::Random random(seed);
  SimOptions options{.seed = seed};
  options.faults = drawn_faults(random);
  if (crowded) options.faults.full_queue = 0.5;
  options.faults.kills = kills;
  options.faults.kill_after = 40;
  options.faults.kill_within = 150;
  const int ranks = static_cast<int>(2 + seed % 4);
  const EdgeWay way = seed % 3 == 0 ? EdgeWay::rendezvous : EdgeWay::slots;
  RandomSteps graph(seed);
  graph.may_have_threads = false;
  int lost = 0;
  SimJob job(ranks, options, simulated_settings());
  const SimOutcome outcome = job.run([&](World& world) {
    try {
      graph.run(world, way);
      job.sleep(world, std::chrono::seconds(1));  // others may still need what this rank sent
    } catch (const Error& error) {
      if (kills == 0 || !is_loss(error.status())) throw;
      ++lost;
    }
  });
  if (outcome.killed.empty()) {
    EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
    EXPECT_TRUE(graph.is_complete()) << outcome.text;
  } else {
    ++seen.deaths;
    // A rank that dies may keep others from joining, too.
    for (const std::string& failure : outcome.failures)
      EXPECT_NE(failure.find("join"), std::string::npos) << outcome.text << ": " << failure;
  }
  seen.right += graph.right();
  seen.lost += lost;
}

TEST(SimulatedGraphs, GiveTheBitsOfOneRankWhateverAFabricMayDo) {
  Seen seen;
  for_fresh_seeds(300, 5'000, [&](std::uint64_t seed) {
    if (!HasFailure()) play(seed, 0, seen);
  });
  EXPECT_GT(seen.right, 0U);
}

// A tensor by rendezvous that the fabric has no room for stays lent until it was moved.
TEST(SimulatedGraphs, GiveTheSameBitsWhereFabricsHaveNoRoom) {
  Seen seen;
  for_fresh_seeds(100, 2'000, [&](std::uint64_t seed) {
    if (!HasFailure()) play(seed - seed % 3, 0, seen, true);
  });
  EXPECT_GT(seen.right, 0U);
}

TEST(SimulatedGraphs, EndWithARanksNameWhereRanksDie) {
  Seen seen;
  for_fresh_seeds(300, 5'000, [&](std::uint64_t seed) {
    if (!HasFailure()) play(seed, 1 + static_cast<int>(seed % 2), seen);
  });
  if (std::getenv("WEFT_TEST_SEED") != nullptr) return;
  std::cout << seen.deaths << " graphs with deaths, " << seen.lost << " ranks that lost another\n";
  EXPECT_GT(seen.deaths, 50);
  EXPECT_GT(seen.lost, 50);
}

}  // namespace
}  // namespace weft::tests
