// Members agree on the survivors, while members die, are cut off, and mistake each other for dead.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/seeds.hpp"
#include "tests/unit/health/agreement_table.hpp"

namespace weft::detail {
namespace {

using End = Agreement::End;

constexpr std::uint64_t kSeeds = tests::seeds(3000);

int size_of(std::uint64_t seed) { return 2 + static_cast<int>(seed % 6); }

TEST(Agreement, OfAllIsAll) {
  Table table(1, 4);
  table.run({});
  EXPECT_EQ(expect_one_answer(table, 1), Places(4, true));
}

TEST(Agreement, IsOneWhateverStepMembersDieAt) {
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    Table table(seed, size_of(seed));
    table.run({.kills = static_cast<int>(seed / 7 % 5)});
    const auto answer = expect_one_answer(table, seed);
    for (int m = 0; m < table.size(); ++m)
      if (table.alive(m)) {
        // Deaths that are detected cut no member off, even if few members are left, and exclude no
        // live member.
        ASSERT_TRUE(answer.has_value()) << "seed " << seed;
        EXPECT_TRUE((*answer)[static_cast<std::size_t>(m)]) << "seed " << seed << ": " << m;
      }
  }
}

TEST(Agreement, LeavesOutWhoDiedBeforeItBegan) {
  Table table(7, 5);
  table.kill(0);
  table.kill(3);
  table.run({});
  const auto answer = expect_one_answer(table, 7);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(text(*answer), "1 2 4 ");
}

/// Each pair of members in turn: `by` declares `victim` dead before anybody begins.
TEST(Agreement, LeavesOutWhomAMemberDeclaredDead) {
  for (const int size : {3, 4, 7})
    for (int by = 0; by < size; ++by)
      for (int victim = 0; victim < size; ++victim)
        for (std::uint64_t seed = 1; by != victim && seed <= 5; ++seed) {
          Table table(seed, size);
          table.declare_dead(by, victim);
          table.settle_news();
          table.run({});
          const auto answer = expect_one_answer(table, seed);
          Places expected(static_cast<std::size_t>(size), true);
          expected[static_cast<std::size_t>(victim)] = false;
          ASSERT_TRUE(answer.has_value());
          EXPECT_EQ(text(*answer), text(expected)) << by << " declared " << victim << " dead";
        }
}

TEST(Agreement, LeavesOutTheLaterOfTwoThatDeclaredEachOtherDead) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Table table(seed, 4);
    table.mistake(1, 3);
    table.settle_news();
    table.run({});
    const auto answer = expect_one_answer(table, seed);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(text(*answer), "0 1 2 ");
  }
}

/// A member whose network is bad takes all others for dead.
TEST(Agreement, GoesOnWithoutAMemberThatDeclaresMostDead) {
  for (const int by : {0, 2, 4})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Table table(seed, 5);
      for (int victim = 0; victim < 5; ++victim)
        if (victim != by && victim != 1) table.declare_dead(by, victim);
      table.settle_news();
      table.run({});
      const auto answer = expect_one_answer(table, seed);
      Places expected(5, true);
      expected[static_cast<std::size_t>(by)] = false;
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(text(*answer), text(expected)) << by;
    }
}

TEST(Agreement, GoesOnWithTheLargerSideAlone) {
  int decided = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    Table table(seed, size_of(seed));
    table.run({.kills = 0, .partition = true});
    const auto answer = expect_one_answer(table, seed);
    int first_side = 0;
    for (int m = 0; m < table.size(); ++m) first_side += table.side(m) == table.side(0) ? 1 : 0;
    const bool first_goes_on = 2 * first_side >= table.size();
    for (int m = 0; m < table.size(); ++m) {
      const bool larger = (table.side(m) == table.side(0)) == first_goes_on;
      // The smaller side may have received the answer before it was cut off, or be named in it.
      EXPECT_TRUE(!larger || table.member(m).end() == End::decided) << "seed " << seed << ": " << m;
    }
    decided += answer ? 1 : 0;
  }
  EXPECT_GT(decided, kSeeds / 3);
}

TEST(Agreement, CutsTheLesserSideOff) {
  Table table(3, 5);
  table.partition();
  while (table.side(0) + table.side(1) + table.side(2) + table.side(3) + table.side(4) != 2)
    table.partition();
  table.run({});
  for (int m = 0; m < 5; ++m)
    EXPECT_EQ(table.member(m).end(), table.side(m) == 1 ? End::cut_off : End::decided) << m;
}

TEST(Agreement, IsToldToWhomALeaderHadAskedBeforeItGaveWay) {
  std::vector<std::pair<int, AgreementMessage::Step>> said;
  Agreement member(
      4, 1, [&](int to, const AgreementMessage& message) { said.emplace_back(to, message.step); });
  const auto hears = [&](int from, AgreementMessage::Step step, std::uint64_t ballot) {
    AgreementMessage message;
    message.step = step;
    message.ballot = ballot;
    message.members = message.ended = Places(4, false);
    message.members[static_cast<std::size_t>(from)] = true;
    message.survivors = {true, true, true, false};
    member.receive(from, message);
  };
  member.gone(0, false);
  member.begin();  // it leads
  hears(3, AgreementMessage::Step::promise, 5);
  hears(2, AgreementMessage::Step::refuse, 8);  // member 0 leads, whom member 3 may not reach
  hears(2, AgreementMessage::Step::decided, 0);
  ASSERT_EQ(member.end(), End::decided);
  EXPECT_EQ(std::ranges::count(said, std::pair(3, AgreementMessage::Step::decided)), 1);
}

/// One member of three, and the messages that it sends to the others.
struct OneOfThree {
  std::vector<std::pair<int, AgreementMessage::Step>> said;
  Agreement member{
      3, 0,
      [this](int to, const AgreementMessage& message) { said.emplace_back(to, message.step); },
      Quorum::all};

  /// Member 1 answers the leader's request, and regards `gone` as gone.
  void answer(AgreementMessage::Step step, std::uint64_t ballot, Places gone) {
    AgreementMessage message;
    message.step = step;
    message.ballot = ballot;
    message.members = {false, true, false};
    message.ended = Places(3, false);
    message.views.push_back({message.members, std::move(gone), Places(3, false)});
    member.receive(1, message);
  }
};

TEST(AgreementOfAll, WaitsUntilWhomItCannotReachIsCountedOut) {
  OneOfThree group;
  group.member.gone(2, false);
  EXPECT_FALSE(group.member.has_suspects()) << "nobody asks yet";
  group.member.begin();
  EXPECT_TRUE(group.member.has_suspects());
  const std::uint64_t ballot = 3;
  group.answer(AgreementMessage::Step::promise, ballot, Places(3, false));
  EXPECT_EQ(group.member.end(), End::none) << "two of three are most, and not all";
  group.member.gone(2, true);
  EXPECT_FALSE(group.member.has_suspects());
  group.answer(AgreementMessage::Step::accepted, ballot, Places(3, false));
  ASSERT_EQ(group.member.end(), End::decided);
  EXPECT_EQ(text(group.member.survivors()), "0 1 ");
}

TEST(AgreementOfAll, LeavesOutNobodyWhomAnotherMemberCannotReach) {
  OneOfThree group;
  group.member.begin();
  AgreementMessage message;
  message.step = AgreementMessage::Step::promise;
  message.ballot = 3;
  message.members = {false, false, true};
  message.ended = Places(3, false);
  group.member.receive(2, message);
  group.answer(AgreementMessage::Step::promise, 3, {false, false, true});
  EXPECT_EQ(group.member.end(), End::none);
  EXPECT_EQ(std::ranges::count(group.said, AgreementMessage::Step::propose,
                               [](const auto& words) { return words.second; }),
            0);
  group.member.gone(1, true);  // the chain left member 1 out
  ASSERT_EQ(std::ranges::count(group.said, AgreementMessage::Step::propose,
                               [](const auto& words) { return words.second; }),
            1);
  message.step = AgreementMessage::Step::accepted;
  group.member.receive(2, message);
  EXPECT_EQ(text(group.member.survivors()), "0 2 ");
}

TEST(AgreementOfAll, IsCutOffByNobody) {
  OneOfThree group;
  group.member.begin();
  group.answer(AgreementMessage::Step::cut_off, 3, Places(3, false));
  group.member.gone(1, false);
  group.member.gone(2, false);
  EXPECT_EQ(group.member.end(), End::none);
  group.member.gone(1, true);
  group.member.gone(2, true);
  EXPECT_EQ(text(group.member.survivors()), "0 ");
}

TEST(Agreement, IsOneWhateverElseGoesWrongTogether) {
  int decided = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    Table table(seed, size_of(seed));
    table.run({.kills = static_cast<int>(seed / 7 % 3),
               .partition = seed % 5 == 0,
               .mistakes = static_cast<int>(seed / 3 % 4)});
    // A rank gives the others up, decides alone and dies: the others' answer stands.
    decided += expect_one_answer(table, seed, false) ? 1 : 0;
  }
  EXPECT_GT(decided, kSeeds / 3);
}

}  // namespace
}  // namespace weft::detail
