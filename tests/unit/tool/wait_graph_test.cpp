// The laggards are the ranks that the others wait for directly or indirectly; cycles are reported.
#include "runtime/tool/status/wait_graph.hpp"

#include <gtest/gtest.h>

namespace weft::tool {
namespace {

HeldUp roots(std::vector<WaitsFor> waits) { return find_roots(waits); }

TEST(WaitGraph, BlamesTheEndOfAChain) {
  const auto found = roots({{0, 1}, {1, 2}, {3, 2}});
  ASSERT_EQ(found.laggards.size(), 1U);
  EXPECT_EQ(found.laggards[0], (Laggard{2, 3}));
  EXPECT_TRUE(found.circles.empty());
}

TEST(WaitGraph, PutsTheOneWithTheMostWaitersFirst) {
  const auto found = roots({{0, 5}, {1, 6}, {2, 6}, {2, 5}, {3, 6}});
  ASSERT_EQ(found.laggards.size(), 2U);
  EXPECT_EQ(found.laggards[0], (Laggard{6, 3}));
  EXPECT_EQ(found.laggards[1], (Laggard{5, 2}));
}

TEST(WaitGraph, TellsACircle) {
  const auto found = roots({{4, 0}, {0, 1}, {1, 2}, {2, 0}});
  EXPECT_TRUE(found.laggards.empty());
  ASSERT_EQ(found.circles.size(), 1U);
  EXPECT_EQ(found.circles[0], (std::vector<int>{0, 1, 2}));
}

TEST(WaitGraph, TellsNoCircleWhereOneOfSeveralMayCome) {
  // A server, rank 3, waits for any of its workers, of which one does not wait.
  const auto busy = roots({{0, 3}, {1, 3}, {3, 0, true}, {3, 1, true}, {3, 2, true}});
  ASSERT_EQ(busy.laggards.size(), 1U);
  EXPECT_EQ(busy.laggards[0], (Laggard{2, 3}));
  EXPECT_TRUE(busy.circles.empty());
  const auto stuck = roots({{0, 3}, {1, 3}, {3, 0, true}, {3, 1, true}});
  EXPECT_TRUE(stuck.laggards.empty());
  EXPECT_EQ(stuck.circles.size(), 1U);
}

TEST(WaitGraph, LeavesOutWhoWaitsForNobodyInParticular) {
  const auto found = roots({{0, -1}, {1, 1}});
  EXPECT_TRUE(found.laggards.empty());
  EXPECT_TRUE(found.circles.empty());
}

}  // namespace
}  // namespace weft::tool
