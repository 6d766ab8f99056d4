#include "benchmarks/harness/statistics.hpp"

#include <gtest/gtest.h>

namespace weft::bench {
namespace {

using Values = std::vector<double>;

TEST(Median, IsTheMiddleOfAnOddNumber) { EXPECT_DOUBLE_EQ(median(Values{9, 1, 4}), 4); }

TEST(Median, LiesBetweenTheTwoMiddleOnes) { EXPECT_DOUBLE_EQ(median(Values{8, 1, 2, 4}), 3); }

TEST(Median, IgnoresOneWildValue) { EXPECT_DOUBLE_EQ(median(Values{2, 2, 1e9, 2, 2}), 2); }

TEST(Quantile, InterpolatesBetweenNeighbours) {
  const Values values{50, 10, 30, 20, 40};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 20);
  EXPECT_DOUBLE_EQ(quantile(values, 0.875), 45);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 50);
}

TEST(Quantile, OfOneValueIsThatValue) { EXPECT_DOUBLE_EQ(quantile(Values{7}, 0.3), 7); }

TEST(Spread, IsTheMiddleHalfsWidthRelativeToTheMedian) {
  EXPECT_DOUBLE_EQ(spread(Values{10, 20, 30, 40, 50}), 20.0 / 30.0);
  EXPECT_DOUBLE_EQ(spread(Values{3, 3, 3}), 0);
}

TEST(SpreadOfMedian, FallsWithTheRootOfTheirNumber) {
  EXPECT_DOUBLE_EQ(spread_of_median(Values{10, 20, 30, 40}), spread(Values{10, 20, 30, 40}) / 2);
  EXPECT_DOUBLE_EQ(spread_of_median(Values{3}), 0);
}

TEST(Ratios, PairUpToTheShorterOnesEnd) {
  EXPECT_EQ(ratios(Values{1, 6, 9}, Values{2, 3}), (Values{0.5, 2}));
}

TEST(ScaledSum, PairsUpToTheShorterOnesEnd) {
  EXPECT_EQ(scaled_sum(2, Values{1, 10, 100}, Values{0.5, 3}), (Values{2.5, 23}));
}

TEST(Between, LiesOnTheLineOfEachPair) {
  EXPECT_EQ(between(Values{4, 10}, Values{8, 2, 1}, 0.75), (Values{7, 4}));
}

}  // namespace
}  // namespace weft::bench
