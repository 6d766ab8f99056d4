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
  const std::string one = losses_of_one_rank();
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

std::vector<tests::NicSpec> nics(std::size_t count) {
  std::vector<tests::NicSpec> specs(count);
  for (std::size_t i = 0; i < count; ++i) specs[i].name = "fake" + std::to_string(i);
  return specs;
}

/// Edges share out a rank's queue pairs and ports.
TEST(WaysByNics, GiveTheBitsOfOneRankByTwoQueuePairsAndTwoNics) {
  const std::string one = losses_of_one_rank();
  std::uint64_t combination = 0;
  for (const int ranks : {3, 8})
    for (const EdgeWay way : {EdgeWay::slots, EdgeWay::rendezvous})
      for (const SentMemory sent : kSentMemories) {
        const bool has_two_nics = combination++ % 2 == 0;
        if (combination % 10 >= tests::seeds(10)) continue;
        tests::FakeNetwork network;
        const Loop loop{ranks, way, sent, combination % 4 < 2 ? 0 : 2};
        EXPECT_EQ(losses_by(loop,
                            [&](int all, const auto& body) {
                              run_ranks(all, body,
                                        tests::verbs_settings()
                                            .with(Setting::qps_per_peer, "2")
                                            .with(Setting::rails, has_two_nics ? "2" : "1"),
                                        [&](int rank) {
                                          return network.devices(rank, nics(has_two_nics ? 2 : 1));
                                        });
                            }),
                  one)
            << loop.text() << (has_two_nics ? ", two NICs" : ", one NIC");
        EXPECT_EQ(network.complaints(), "");
        EXPECT_EQ(network.left_behind(), "");
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
