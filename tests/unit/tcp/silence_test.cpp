// Which rails are given up for their silence, by what their kernels tell every 50 ms.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>

#include "p2p/transport/tcp/silence.hpp"

namespace weft::p2p::tcp {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto kTurn = 50ms;
constexpr auto kPatience = 500ms;

/// Two rails whose networks are cut and come back.
class TwoRails {
 public:
  /// Until then nothing comes by the rail.
  void cut(std::size_t rail) { is_cut_[rail] = true; }
  void back(std::size_t rail) { is_cut_[rail] = false; }
  void has_nothing_under_way(std::size_t rail) { is_idle_[rail] = true; }
  /// Once what was asked is under way.
  void take_asks(std::size_t rail) { takes_asks_[rail] = true; }
  void is_lost(std::size_t rail) { signs_[rail].up = false; }

  /// For so long, or until a rail or the path is lost.
  SilenceJudge::Verdict pass(milliseconds span, bool was_closed = false) {
    for (; span > 0ms; span -= kTurn) {
      for (std::size_t i = 0; i < signs_.size(); ++i) {
        signs_[i].awaits_answer = !is_idle_[i];
        const bool heard = !is_cut_[i] && !is_idle_[i];
        signs_[i].last_heard = heard ? 1ms : signs_[i].last_heard + kTurn;
      }
      auto verdict = judge_.judge(signs_, was_closed, kTurn, kPatience);
      for (const std::size_t rail : verdict.ask)
        if (takes_asks_[rail]) is_idle_[rail] = false;
      if (verdict.lost || verdict.path_lost) return verdict;
    }
    return {};
  }

 private:
  SilenceJudge judge_;
  std::array<RailSign, 2> signs_{RailSign{.up = true}, RailSign{.up = true}};
  std::array<bool, 2> is_cut_{};
  std::array<bool, 2> is_idle_{};
  std::array<bool, 2> takes_asks_{};
};

TEST(SilenceOfRails, EndsOneWhileAnotherWorks) {
  TwoRails rails;
  EXPECT_FALSE(rails.pass(3s).lost);
  rails.cut(1);
  EXPECT_FALSE(rails.pass(450ms).lost);
  const auto verdict = rails.pass(100ms);
  ASSERT_TRUE(verdict.lost);
  EXPECT_EQ(*verdict.lost, 1U);
  EXPECT_FALSE(verdict.path_lost);
}

// Each end would give up another one, since which is back first is chance.
TEST(SilenceOfRails, EndsNoneWhenAllAreSilentNorWhenTheFirstIsBack) {
  TwoRails rails;
  rails.pass(1s);
  rails.cut(0);
  rails.cut(1);
  EXPECT_FALSE(rails.pass(30s).lost);
  rails.back(1);
  EXPECT_FALSE(rails.pass(25s).lost) << "the other one may be back as well, and not be asked yet";
  rails.back(0);
  EXPECT_FALSE(rails.pass(10s).lost);
}

TEST(SilenceOfRails, EndsTheOneThatStaysAwayWhenTheOtherIsBack) {
  TwoRails rails;
  rails.cut(0);
  rails.cut(1);
  rails.pass(3s);
  rails.back(1);
  EXPECT_FALSE(rails.pass(3s).lost);
  const auto verdict = rails.pass(1s);
  ASSERT_TRUE(verdict.lost);
  EXPECT_EQ(*verdict.lost, 0U);
}

// One that has nothing to carry may be cut as well.
TEST(SilenceOfRails, AsksAnIdleRailBeforeItCountsAsWorking) {
  for (const bool works : {true, false}) {
    TwoRails rails;
    rails.has_nothing_under_way(1);
    rails.take_asks(1);
    rails.pass(1s);
    rails.cut(0);
    if (!works) rails.cut(1);
    const auto verdict = rails.pass(5s);
    EXPECT_EQ(verdict.lost, works ? std::optional<std::size_t>(0) : std::nullopt);
    EXPECT_FALSE(verdict.path_lost);
  }
}

TEST(SilenceOfRails, EndsThePathSoonWhereThePeersHostHasClosedAnother) {
  TwoRails rails;
  rails.pass(1s);
  rails.cut(0);
  rails.pass(200ms);
  rails.is_lost(1);
  EXPECT_FALSE(rails.pass(300ms, true).path_lost) << "the kernel has not asked again yet";
  EXPECT_TRUE(rails.pass(1s, true).path_lost);
}

TEST(SilenceOfRails, IsBorneWhereThisEndHasClosedTheOther) {
  TwoRails rails;
  rails.pass(1s);
  rails.cut(0);
  rails.is_lost(1);
  const auto verdict = rails.pass(20s, false);
  EXPECT_FALSE(verdict.lost);
  EXPECT_FALSE(verdict.path_lost);
}

TEST(SilenceOfRails, DoesNotEndThePathIfTheRestWorks) {
  TwoRails rails;
  rails.is_lost(1);
  EXPECT_FALSE(rails.pass(5s, true).path_lost);
}

}  // namespace
}  // namespace weft::p2p::tcp
