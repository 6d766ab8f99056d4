// The ways of edges over fake NICs.
#include <gtest/gtest.h>

#include <random>

#include "tests/seeds.hpp"
#include "tests/threads/dataflow/losses.hpp"
#include "tests/threads/dataflow/random_steps.hpp"
#include "tests/threads/verbs/nics.hpp"

namespace weft::dataflow {
namespace {

TEST(WaysByNics, GiveTheBitsOfOneRank) {
  const std::string one =
      losses_by(EdgeWay::slots, SentMemory::arena, 1,
                [](int ranks, const auto& body) { tests::run_on(ranks, body); });
  ASSERT_EQ(one.size(), kLossSteps * sizeof(float));
  for (const int ranks : {2, 3, 4})
    for (const EdgeWay way : kWays)
      for (const SentMemory sent : {SentMemory::arena, SentMemory::plain}) {
        tests::NicJob job;
        EXPECT_EQ(
            losses_by(way, sent, ranks, [&](int all, const auto& body) { job.run(all, body); }),
            one)
            << ranks << " ranks, way " << int(way) << ", memory " << int(sent);
      }
}

TEST(RandomGraphsByNics, GiveTheBitsOfOneRank) {
  const std::uint64_t first = std::random_device()();
  std::cout << "seeds from " << first << " on\n";
  for (std::uint64_t seed = first; seed < first + tests::seeds(30); ++seed) {
    RandomSteps graph(seed);
    tests::NicJob job;
    job.run(2 + int(seed % 3), [&](World& world) { graph.run(world, kWays[seed / 12 % 3]); });
    EXPECT_TRUE(graph.is_complete()) << seed;
  }
}

}  // namespace
}  // namespace weft::dataflow
