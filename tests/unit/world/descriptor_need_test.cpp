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

/// With connections to all ranks from the start.
std::size_t needed_at_once(const std::string& fabric, int rails, const RankCounts& ranks) {
  return descriptors_to_open(Config()
                                 .with(Setting::fabric, fabric)
                                 .with(Setting::mesh_eager, std::to_string(ranks.all))
                                 .with(Setting::rails, std::to_string(rails)),
                             ranks);
}

// Two networks double the connections for data of a job, and must not be what ends it. A peer has
// up to four addresses, two of each of two networks with IPv6 for instance, and all may be called
// before one answers.
TEST(DescriptorNeed, LeavesSeveralRailsIfEveryAddressOfEachPeerCanBeCalled) {
  const RankCounts ranks{.all = 500, .local = 2};
  for (const char* const fabric : {"auto", "tcp"}) {
    // All pairs count, though they connect on first use.
    const Config config = Config().with(Setting::fabric, fabric);
    const std::size_t calls = needed_at_once(fabric, 4, ranks);
    EXPECT_EQ(tcp_rails_within(config, ranks, calls), 4) << fabric;
    EXPECT_EQ(tcp_rails_within(config, ranks, calls - 1), 1) << fabric;
    EXPECT_EQ(tcp_rails_within(config, ranks, needed_at_once(fabric, 2, ranks)), 1)
        << fabric << ": enough for two connections, not for the calls before them";
  }
  EXPECT_EQ(tcp_rails_within(Config(), ranks, 0), 1);
}

}  // namespace
}  // namespace weft::detail
