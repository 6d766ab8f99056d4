// One graph gives the same bits on any number of ranks, by any way of its edges, from any memory,
// with any number of threads.
#include <gtest/gtest.h>

#include "tests/seeds.hpp"
#include "tests/threads/dataflow/losses.hpp"

namespace weft::dataflow {
namespace {

class SameBits : public testing::TestWithParam<int> {};

/// The sanitizers run one combination in ten of each number of ranks.
bool is_run(std::uint64_t combination) { return combination % 10 < tests::seeds(10); }

TEST_P(SameBits, AreThoseOfOneRank) {
  const std::string one = losses_of_one_rank();
  ASSERT_EQ(one.size(), kLossSteps * sizeof(float));
  EXPECT_NE(one.substr(0, 4), one.substr(16)) << "the model learns";
  auto combination = std::uint64_t(GetParam());
  for (const EdgeWay way : kWays)
    for (const SentMemory sent : kSentMemories)
      for (const int threads : {0, 2}) {
        ++combination;
        const Loop loop{GetParam(), way, sent, threads};
        if (is_run(combination)) {
          EXPECT_EQ(losses_by(loop, run_by("shm")), one) << loop.text() << " by shm";
        }
        // By tcp there are no views; half of the combinations, others for each number of ranks.
        if (way != EdgeWay::views && combination % 2 == std::uint64_t(way) % 2 &&
            is_run(combination / 2)) {
          EXPECT_EQ(losses_by(loop, run_by("tcp")), one) << loop.text() << " by tcp";
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Of, SameBits, testing::Range(2, 9),
                         [](const auto& info) { return std::to_string(info.param) + "_ranks"; });

}  // namespace
}  // namespace weft::dataflow
