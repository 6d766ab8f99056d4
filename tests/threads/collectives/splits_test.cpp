// Group::split() when a member is late, dead or gone.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/ranks.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr int kRanks = 5;

/// Runs `body` over each of two fabrics.
void run_over_all(const std::function<void(World&)>& body) {
  for (const char* fabric : {"shm", "tcp"})
    run_on(kRanks, settings().with(Setting::fabric, fabric), body);
}

TEST(Split, NamesTheMemberThatDoesNotCallItAndMayBeCalledAgain) {
  run_over_all([](World& world) {
    const Group all = world.group();
    if (world.rank() == 3) {
      std::this_thread::sleep_for(milliseconds(400));
    } else {
      const Status late = all.split(0, 0, Deadline::after(milliseconds(200))).status();
      EXPECT_TRUE(
          tells(late, Code::timeout, {"split: ", "rank 3 (host ", ") has not split the group"}));
      EXPECT_EQ(late.detail().peer, 3);
    }
    const auto part = all.split(world.rank() % 2);
    ASSERT_TRUE(part.ok()) << part.status().text();
    EXPECT_EQ(part->size(), world.rank() % 2 == 0 ? 3 : 2);
  });
}

TEST(Split, EndsWhenAMemberIsDeadOrHasLeft) {
  Meeting meeting(kRanks);
  run_on(kRanks, [&](World& world) {
    const Group all = world.group();
    ASSERT_TRUE(all.split(0).ok());
    meeting.wait();
    if (world.rank() == 4) return;
    const Status gone = all.split(1).status();
    EXPECT_EQ(gone.code(), Code::peer_left) << gone.text();
    EXPECT_EQ(gone.detail().peer, 4);
    EXPECT_EQ(gone.detail().operation, "split");
    // The survivors' group is split without it.
    const Group survivors = all.shrink().value();
    const auto part = survivors.split(0, -world.rank());
    ASSERT_TRUE(part.ok()) << part.status().text();
    EXPECT_EQ(part->members()[0], 3);
    EXPECT_EQ(part->epoch(), 1U);
  });
}

/// Neither the application's groups nor other parts are in the way.
TEST(Split, OfSeveralGroupsAtOnceKeepsThemApart) {
  run_over_all([](World& world) {
    const Group half = world.group().split(world.rank() < 2 ? 0 : 1).value();
    for (int n = 0; n < 20; ++n) {
      const Group part = half.split(n % 2, half.rank() * (n % 3 - 1)).value();
      EXPECT_EQ(part.size(), half.size());
      EXPECT_EQ(part.members()[0] == half.members()[0], n % 3 != 0);
      if (n % 5 == 0) {
        Collectives among = Collectives::open(world, half);
        EXPECT_TRUE(among.run(barrier()).ok());
      }
    }
  });
}

}  // namespace
}  // namespace weft::tests
