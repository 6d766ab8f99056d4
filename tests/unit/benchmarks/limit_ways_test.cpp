#include "benchmarks/harness/limit_ways.hpp"

#include <gtest/gtest.h>

namespace weft::bench {
namespace {

/// Adds one time for each way that is left.
void add_round(LimitWays& ways, const std::vector<double>& times) {
  for (std::size_t way = 0; way < ways.count(); ++way)
    if (!ways.is_dropped(way)) ways.add(way, times[way]);
  ways.drop_slow();
}

TEST(LimitWays, CountTheBestMedianAndTellEach) {
  LimitWays ways({"whole", "polled"});
  for (const double first : {100.0, 1.0, 9.0, 2.0}) add_round(ways, {first, 2.5});
  const std::vector<double> weft{4, 5, 6};
  const RunRow row = ways.compared(1024, "put", weft);
  EXPECT_EQ(row.size, 1024U);
  EXPECT_EQ(row.kind, "put");
  EXPECT_EQ(
      row.values,
      (std::map<std::string, double>{
          {"weft", 5}, {"limit", 2}, {"weft/limit", 3}, {"limit_whole", 2}, {"limit_polled", 2.5}}))
      << "without the first time of each, and with ratios of neighbours: 4/1, 5/9, 6/2";
}

TEST(LimitWays, DropWhatIsFarSlowerAfterThreeTries) {
  LimitWays ways({"slow", "best", "near"});
  for (int round = 0; round < 3; ++round) add_round(ways, {31, 20, 29});
  EXPECT_FALSE(ways.is_dropped(0)) << "the first time of each warms up";
  for (int round = 0; round < 2; ++round) add_round(ways, {31, 20, 29});
  EXPECT_TRUE(ways.is_dropped(0));
  EXPECT_FALSE(ways.is_dropped(1));
  EXPECT_FALSE(ways.is_dropped(2));
  add_round(ways, {0, 50, 29});
  const std::vector<double> weft(5, 40);
  const auto values = ways.compared(8, "put", weft).values;
  EXPECT_EQ(values.at("limit"), 20);
  EXPECT_EQ(values.at("limit_slow"), 31) << "what is dropped is told, too";
}

TEST(LimitWays, AreScaled) {
  LimitWays ways({"whole"});
  for (int round = 0; round < 2; ++round) add_round(ways, {3});
  const std::vector<double> weft{12};
  EXPECT_EQ(ways.compared(8, "pull", weft, 2).values,
            (std::map<std::string, double>{{"weft", 12}, {"limit", 6}, {"weft/limit", 2}}))
      << "one way is no choice";
}

}  // namespace
}  // namespace weft::bench
