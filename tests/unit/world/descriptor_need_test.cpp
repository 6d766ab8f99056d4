// How many descriptors a rank is said to open.
#include "runtime/world/descriptor_need.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace weft::detail {
namespace {

std::size_t needed(const std::string& fabric, const std::string& rails, const RankCounts& ranks) {
  return descriptors_to_open(Config().with(Setting::fabric, fabric).with(Setting::rails, rails),
                             ranks);
}

TEST(DescriptorNeed, GrowsByARailForEachRankOfAnotherHost) {
  const RankCounts ranks{.all = 6, .local = 2};
  for (const char* const fabric : {"auto", "tcp"}) {
    const std::size_t peers = std::string(fabric) == "tcp" ? 6 : 4;
    EXPECT_EQ(needed(fabric, "3", ranks), needed(fabric, "1", ranks) + 2 * peers) << fabric;
    EXPECT_EQ(needed(fabric, "auto", ranks), needed(fabric, "1", ranks)) << fabric;
  }
}

TEST(DescriptorNeed, OnOneHostIsThatOfSharedMemory) {
  EXPECT_EQ(needed("auto", "8", {.all = 4, .local = 4}),
            needed("auto", "1", {.all = 2, .local = 2}) + 2 * kDescriptorsPerRank);
}

TEST(DescriptorNeed, ByRdmaIsThatOfAllPortsThatARankMayOpen) {
  const RankCounts ranks{.all = 2, .local = 1};
  EXPECT_EQ(needed("verbs", "auto", ranks), needed("verbs", "4", ranks));
  EXPECT_EQ(needed("verbs", "8", ranks), needed("verbs", "4", ranks));
  EXPECT_LT(needed("verbs", "1", ranks), needed("verbs", "2", ranks));
}

// Two networks double the connections for data of a job, and must not be what ends it.
TEST(DescriptorNeed, LeavesAsManyRailsAsTheLimitAllows) {
  const RankCounts ranks{.all = 500, .local = 2};
  for (const char* const fabric : {"auto", "tcp"})
    for (int rails = 1; rails <= 4; ++rails) {
      const std::string eager = std::to_string(ranks.all);
      const std::size_t enough =
          descriptors_to_open(Config()
                                  .with(Setting::fabric, fabric)
                                  .with(Setting::mesh_eager, eager)
                                  .with(Setting::rails, std::to_string(rails)),
                              ranks);
      // All pairs count, though they connect on first use.
      const Config config = Config().with(Setting::fabric, fabric);
      EXPECT_EQ(tcp_rails_within(config, ranks, enough), rails) << fabric;
      EXPECT_EQ(tcp_rails_within(config, ranks, enough - 1), std::max(1, rails - 1)) << fabric;
    }
  EXPECT_EQ(tcp_rails_within(Config(), ranks, 0), 1);
}

}  // namespace
}  // namespace weft::detail
