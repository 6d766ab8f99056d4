// Reports of rails after the peer has gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

TEST(RailsOfAReport, AreThoseOfTheEndWhenThePeerHasLeft) {
  const auto config =
      settings().with(Setting::fabric, "tcp").with(Setting::rails, "2").with(Setting::log, "off");
  Meeting meeting(2);
  run_on(2, config, [&](World& world) {
    if (world.rank() == 1) return (void)meeting.wait();
    const auto path = [&] {
      auto paths = world.report().paths;
      return *std::ranges::find(paths, 1, &PathReport::peer);
    };
    EXPECT_EQ(path().rails.size(), 2U);
    meeting.wait();
    const std::array<int, 1> other{1};
    EXPECT_TRUE(soon([&] { return !world.alive(other).ok(); }, std::chrono::seconds(10)));
    const PathReport after = path();
    EXPECT_EQ(after.rails.size(), 2U);
    EXPECT_TRUE(std::ranges::all_of(after.rails, &RailReport::up));
  });
}

}  // namespace
}  // namespace weft::tests
