// weft-chaos tells of the faults that it injects, and of no others.
#include "runtime/tool/chaos/faults.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/os/pidfd.hpp"

namespace weft::tool {
namespace {

/// All that is said when rank 0, this very process, is to be cut off for a moment.
std::vector<std::string> said_of_a_cut(CutOptions cut) {
  std::vector<std::string> said;
  JobRanks ranks;
  ranks.ranks[0] = {.pid = ::getpid(), .pidfd = os::pidfd_open(::getpid())};
  const auto now = std::chrono::steady_clock::now();
  Chaos chaos({{.at_s = 0, .fault = Fault::cut, .rank = 0, .for_s = 0.1}}, std::move(ranks),
              std::move(cut), now, [&](const std::string& line) { said.push_back(line); });
  (void)chaos.turn(now);
  (void)chaos.turn(now + std::chrono::seconds(1));
  return said;
}

TEST(Faults, OfARankInThisNetworkNamespaceAreNoCuts) {
  const auto said = said_of_a_cut({.command = "", .by_nft = true});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0], "rank 0 is not cut: it is in this network namespace");
}

TEST(Faults, WhoseCommandFailsAreNoCutsButAreEnded) {
  const auto said = said_of_a_cut({.command = "test $CHAOS_ACTION = mend"});
  ASSERT_EQ(said.size(), 2U);
  EXPECT_TRUE(said[0].starts_with("the command to cut rank 0 failed with status ")) << said[0];
  EXPECT_EQ(said[1], "rank 0: end of cut");
}

TEST(Faults, WhoseCommandSucceedsAreTold) {
  const auto said = said_of_a_cut({.command = "true"});
  ASSERT_EQ(said.size(), 2U);
  EXPECT_TRUE(said[0].starts_with("cut rank 0 (pid ")) << said[0];
}

}  // namespace
}  // namespace weft::tool
