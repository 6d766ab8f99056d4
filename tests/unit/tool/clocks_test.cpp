// Clocks of several kernels are aligned by messages between them, within the stated error.
#include "runtime/tool/trace/clocks.hpp"

#include <gtest/gtest.h>

namespace weft::tool {
namespace {

const std::vector<WallClock> kTwo{{"a", 100}, {"b", 7100}};

TEST(Clocks, AreAlignedByWhatWentBothWays) {
  // b's clock is ahead by 5000; one way takes 40, the way back 60.
  const std::vector<Crossing> crossings{{"a", "b", 1000, 6040}, {"b", "a", 6100, 1160}};
  const auto clocks = align(kTwo, crossings);
  EXPECT_EQ(clocks.at("a").add_ns, 0);
  EXPECT_FALSE(clocks.at("b").by_wall_clock);
  EXPECT_EQ(clocks.at("b").error_ns, 50);
  EXPECT_NEAR(static_cast<double>(clocks.at("b").add_ns), -5000, 50);
}

TEST(Clocks, GetBetterWithQuickerCrossings) {
  const std::vector<Crossing> crossings{{"a", "b", 1000, 6900},
                                        {"b", "a", 6100, 1900},
                                        {"a", "b", 3000, 8010},
                                        {"b", "a", 8100, 3110}};
  const auto clocks = align(kTwo, crossings);
  EXPECT_EQ(clocks.at("b").error_ns, 10);
  EXPECT_EQ(clocks.at("b").add_ns, -5000);
}

TEST(Clocks, MeetOverAThird) {
  const std::vector<WallClock> three{{"a", 0}, {"b", 0}, {"c", 0}};
  const std::vector<Crossing> crossings{
      {"a", "b", 0, 110}, {"b", "a", 200, 110}, {"b", "c", 0, 1010}, {"c", "b", 1200, 210}};
  const auto clocks = align(three, crossings);
  EXPECT_EQ(clocks.at("c").add_ns, -1100);
  EXPECT_EQ(clocks.at("c").error_ns, 20);
}

TEST(Clocks, FallBackToTheWallClockAndSayIt) {
  const std::vector<Crossing> one_way{{"a", "b", 1000, 6040}};
  const auto clocks = align(kTwo, one_way);
  EXPECT_TRUE(clocks.at("b").by_wall_clock);
  EXPECT_EQ(clocks.at("b").add_ns, -7000);
}

}  // namespace
}  // namespace weft::tool
