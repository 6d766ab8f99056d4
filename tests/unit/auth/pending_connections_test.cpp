// The choice of connections to drop when too many have come that prove nothing.
#include "p2p/transport/auth/pending_connections.hpp"

#include <gtest/gtest.h>

#include <set>

namespace weft::p2p {
namespace {

using namespace std::chrono_literals;

constexpr PendingConnections::Source kRank = {std::byte{1}};
constexpr PendingConnections::Source kFlood = {std::byte{2}};
constexpr PendingConnections::Limits kFew{.silent = 4, .spoken = 4};

/// The connections that are dropped until the rest is within `limits`.
std::set<PendingConnections::Id> send_away(PendingConnections& room,
                                           const PendingConnections::Limits& limits) {
  std::set<PendingConnections::Id> gone;
  while (const auto id = room.surplus(limits)) {
    room.leave(*id);
    gone.insert(*id);
  }
  return gone;
}

TEST(PendingConnections, KeepsEverybodyWithinTheLimits) {
  PendingConnections room;
  for (int i = 0; i < 4; ++i) room.enter(kFlood);
  for (int i = 0; i < 4; ++i) room.spoke(room.enter(kFlood));
  EXPECT_EQ(room.surplus(kFew), std::nullopt);
  EXPECT_EQ(room.size(), 8U);
}

TEST(PendingConnections, SendsTheOldestAwayOfTheSourceThatHasTheMost) {
  PendingConnections room;
  const auto rank = room.enter(kRank);
  const auto first = room.enter(kFlood);
  for (int i = 0; i < 3; ++i) room.enter(kFlood);
  EXPECT_EQ(send_away(room, kFew), (std::set{first}));
  for (int i = 0; i < 10'000; ++i) {
    room.enter(kFlood);
    ASSERT_FALSE(send_away(room, kFew).contains(rank));
  }
  EXPECT_EQ(room.size(), 4U);
}

TEST(PendingConnections, LetsTheSilentCostOnlyTheSilent) {
  PendingConnections room;
  const auto rank = room.enter(kFlood);  // of the same address
  room.spoke(rank);
  for (int i = 0; i < 10'000; ++i) {
    room.enter(kFlood);
    ASSERT_FALSE(send_away(room, kFew).contains(rank));
  }
  EXPECT_NE(room.spare(), rank);
}

TEST(PendingConnections, KeepsASourceFromPushingOutAnotherThatHasSpoken) {
  PendingConnections room;
  const auto rank = room.enter(kRank);
  room.spoke(rank);
  for (int i = 0; i < 10'000; ++i) {
    room.spoke(room.enter(kFlood));
    ASSERT_FALSE(send_away(room, kFew).contains(rank));
  }
}

TEST(PendingConnections, NamesThoseThatAreLateAndNeverUsesANumberAgain) {
  PendingConnections room;
  const auto start = Clock::now();
  const auto first = room.enter(kRank, start);
  const auto second = room.enter(kRank, start + 5s);
  EXPECT_EQ(room.late(start + 10s, 10s), std::vector{first});
  room.leave(first);
  room.leave(second);
  EXPECT_TRUE(room.empty());
  EXPECT_GT(room.enter(kRank), second);
}

}  // namespace
}  // namespace weft::p2p
