// How many descriptors a rank is said to open.
#include "runtime/world/descriptor_need.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::detail
