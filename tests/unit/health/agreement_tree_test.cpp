// An agreement's messages go up and down a tree, whose inner members die at every step.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/seeds.hpp"
#include "tests/unit/health/agreement_table.hpp"

namespace weft::detail {
namespace {

using Step = AgreementMessage::Step;

/// Asks that a member sent: child and subtree.
using Asked = std::vector<std::pair<int, std::string>>;

Asked asks(Gathering& gathering, const Places& out) {
  Asked asked;
  gathering.ask(
      out, [&](int child, const Places& subtree) { asked.emplace_back(child, text(subtree)); });
  return asked;
}

Places of(std::size_t size, std::initializer_list<int> members) {
  Places places(size);
  for (const int member : members) places[static_cast<std::size_t>(member)] = true;
  return places;
}

TEST(AgreementTree, HasAsManyChildrenAsItMayAndRunsOfMembers) {
  Gathering gathering(8, 2);
  gathering.want(of(8, {1, 2, 3, 4, 6, 7}));
  EXPECT_EQ(asks(gathering, of(8, {3})), (Asked{{1, "2 4 "}, {6, "7 "}}));
  EXPECT_EQ(asks(gathering, of(8, {3})), Asked{}) << "all have been asked";
  gathering.answered(6, of(8, {6, 7}), false);
  EXPECT_EQ(gathering.awaited(of(8, {6, 7}), Places(8)), -1);
  EXPECT_EQ(gathering.awaited(gathering.wanted(), of(8, {3})), 1);
}

TEST(AgreementTree, CountsAnswersOfThoseAloneWhoWereAskedThroughTheirSender) {
  Gathering gathering(8, 2);
  gathering.want(of(8, {0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(asks(gathering, Places(8)), (Asked{{0, "1 2 3 "}, {4, "5 6 "}}));
  EXPECT_EQ(gathering.answered(0, of(8, {0, 1, 5, 7}), true), of(8, {0, 1}))
      << "5 was asked through 4, and 7 was not asked";
  EXPECT_EQ(gathering.have_answered(), of(8, {0, 1}));
}

TEST(AgreementTree, AsksDirectlyWhomALostOrIdleChildLeavesOut) {
  Gathering gathering(9, 2);
  gathering.want(of(9, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(asks(gathering, Places(9)), (Asked{{1, "2 3 4 "}, {5, "6 7 8 "}}));
  gathering.answered(1, of(9, {2}), true);
  EXPECT_EQ(asks(gathering, Places(9)), Asked{}) << "more will follow";
  EXPECT_EQ(asks(gathering, of(9, {1})), (Asked{{3, ""}, {4, ""}}));
  gathering.answered(5, of(9, {7}), false);
  EXPECT_EQ(asks(gathering, of(9, {1})), (Asked{{6, ""}, {8, ""}}))
      << "5 does not answer, and is not asked again";
  gathering.answered(6, of(9, {}), false);
  for (const int member : {3, 4, 8}) {
    EXPECT_EQ(gathering.awaited(gathering.wanted(), of(9, {1})), member);
    gathering.answered(member, of(9, {member}), false);
  }
  EXPECT_EQ(gathering.awaited(gathering.wanted(), of(9, {1})), -1);
}

TEST(AgreementTree, HasTheSameEdgesUpAsDown) {
  for (const int fan_out : {1, 2, 3, 8})
    for (int size = 2; size < 90; size += 7) {
      std::vector<int> members(static_cast<std::size_t>(size));
      for (std::size_t m = 0; m < members.size(); ++m) members[m] = 3 + 2 * static_cast<int>(m);
      const auto places = static_cast<std::size_t>(members.back()) + 1;
      // Passes the question on as the members of an agreement do.
      std::vector<std::pair<int, Places>> tasks{{members[0], Places(places)}};
      for (std::size_t m = 1; m < members.size(); ++m)
        tasks[0].second[static_cast<std::size_t>(members[m])] = true;
      int edges = 0;
      while (!tasks.empty()) {
        const auto [parent, subtree] = std::move(tasks.back());
        tasks.pop_back();
        Gathering gathering(static_cast<int>(places), fan_out);
        gathering.want(subtree);
        gathering.ask(Places(places), [&](int child, const Places& below) {
          EXPECT_EQ(parent_of(child, members, fan_out), parent) << child << " of " << size;
          tasks.emplace_back(child, below);
          ++edges;
        });
      }
      EXPECT_EQ(edges, size - 1);
    }
}

constexpr std::uint64_t kTrees = tests::seeds(4000);

/// A group whose tree is deep: few children each.
struct Grove {
  explicit Grove(std::uint64_t seed)
      : size(2 + static_cast<int>(seed % 19)),
        within(60 + static_cast<int>(seed / 3 % 4) * size * 4),
        table(seed, size, std::array{1, 2, 3, kFanOut}[seed / 5 % 4]) {}

  int size;
  int within;
  Table table;
};

TEST(AgreementTree, BearsDeathsOfItsMembersAtEveryStep) {
  for (std::uint64_t seed = 1; seed <= kTrees && !testing::Test::HasFailure(); ++seed) {
    Grove grove(seed);
    grove.table.run({.kills = 1 + static_cast<int>(seed / 7 % 4), .within = grove.within});
    const auto answer = expect_one_answer(grove.table, seed);
    for (int m = 0; m < grove.size; ++m)
      if (grove.table.alive(m)) {
        ASSERT_TRUE(answer.has_value()) << "seed " << seed;
        EXPECT_TRUE((*answer)[static_cast<std::size_t>(m)]) << "seed " << seed << ": " << m;
      }
  }
}

TEST(AgreementTree, BearsPartitionsAndMistakes) {
  int decided = 0;
  for (std::uint64_t seed = 1; seed <= kTrees && !testing::Test::HasFailure(); ++seed) {
    Grove grove(seed);
    grove.table.run({.kills = static_cast<int>(seed / 7 % 3),
                     .partition = seed % 5 == 0,
                     .mistakes = static_cast<int>(seed / 11 % 4),
                     .within = grove.within});
    decided += expect_one_answer(grove.table, seed, false) ? 1 : 0;
  }
  EXPECT_GT(decided, kTrees / 3);
}

/// Messages of a group of which all begin: of each member at most, and of all.
std::pair<int, int> messages(Table& table) {
  std::pair<int, int> sent{0, 0};
  for (int m = 0; m < table.size(); ++m) {
    sent.first = std::max(sent.first, table.sent(m));
    sent.second += table.sent(m);
  }
  return sent;
}

TEST(AgreementTree, TakesAFewMessagesForEachChildOfAMember) {
  constexpr int kSize = 200;
  Table table(5, kSize);
  table.kill(0);
  table.kill(77);
  table.settle_news();
  table.run({});
  ASSERT_TRUE(expect_one_answer(table, 5));
  // A member asks, answers twice, and sends three messages to each child.
  const auto [most, all] = messages(table);
  EXPECT_LE(most, 3 + 3 * kFanOut);
  EXPECT_LE(all, 6 * kSize);
}

TEST(AgreementTree, AsksTheSubtreeOfADeadChildOnly) {
  constexpr int kSize = 200;
  for (const int dead : {1, 26, 27}) {
    Table table(6, kSize);
    table.at(450, [&table, dead] { table.kill(dead); });  // while they promise
    table.run({});
    ASSERT_TRUE(expect_one_answer(table, 6));
    const auto [most, all] = messages(table);
    EXPECT_LE(most, 3 + 3 * kFanOut + 3 * kSize / kFanOut) << dead;
    EXPECT_LE(all, 8 * kSize) << dead;
  }
}

/// Messages of one member of a group, in the order in which it sends them.
struct OneMember {
  OneMember(int size, int self)
      : member(size, self, [this](int to, const AgreementMessage& message) {
          said.emplace_back(to, message);
        }) {}
  void hear(int from, AgreementMessage message) {
    said.clear();
    member.receive(from, message);
  }
  AgreementMessage prepare(std::uint64_t ballot, Places subtree) const {
    AgreementMessage message;
    message.step = Step::prepare;
    message.ballot = ballot;
    message.gone.assign(subtree.size(), false);
    message.members = std::move(subtree);
    return message;
  }

  std::vector<std::pair<int, AgreementMessage>> said;
  Agreement member;
};

TEST(AgreementTree, SendsViewsInSeveralAnswersIfTheyAreMany) {
  constexpr std::size_t kSize = 64;
  OneMember one(static_cast<int>(kSize), 1);
  Places subtree(kSize, true);
  subtree[0] = subtree[1] = false;
  one.hear(0, one.prepare(kSize, subtree));
  std::vector<int> children;
  for (const auto& [to, message] : one.said) children.push_back(to);
  ASSERT_EQ(children.size(), static_cast<std::size_t>(kFanOut));
  // Every member takes its next one for gone.
  for (int child : children) {
    AgreementMessage promise;
    promise.step = Step::promise;
    promise.ballot = kSize;
    promise.ended.assign(kSize, false);
    promise.members.assign(kSize, false);
    const auto next = std::ranges::upper_bound(children, child);
    const int end = next == children.end() ? static_cast<int>(kSize) : *next;
    for (int m = child; m < end; ++m) {
      promise.members[static_cast<std::size_t>(m)] = true;
      promise.views.push_back(
          {of(kSize, {m}), of(kSize, {(m + 1) % static_cast<int>(kSize)}), of(kSize, {})});
    }
    one.hear(child, promise);
  }
  Places named(kSize);
  std::size_t views = 0;
  ASSERT_GT(one.said.size(), 1U);
  for (std::size_t i = 0; i < one.said.size(); ++i) {
    const auto& [to, message] = one.said[i];
    EXPECT_EQ(to, 0);
    EXPECT_EQ(message.more, i + 1 < one.said.size());
    EXPECT_LE(message.views.size(), kMostViews);
    views += message.views.size();
    for (std::size_t m = 0; m < kSize; ++m)
      if (message.members[m]) {
        EXPECT_FALSE(named[m]);
        named[m] = true;
      }
  }
  EXPECT_EQ(views, kSize - 2);
  EXPECT_EQ(std::ranges::count(named, true), static_cast<std::ptrdiff_t>(kSize) - 1);
}

TEST(AgreementTree, AnswersWhatItCanWhenANewerBallotComes) {
  OneMember one(6, 2);
  one.hear(1, one.prepare(6, of(6, {3, 4})));  // by member 0, through member 1
  one.hear(0, one.prepare(12, of(6, {})));
  ASSERT_EQ(one.said.size(), 2U);
  EXPECT_EQ(one.said[0].first, 1);
  EXPECT_EQ(one.said[0].second.ballot, 6U);
  EXPECT_EQ(text(one.said[0].second.members), "2 ");
  EXPECT_EQ(one.said[1].first, 0);
  EXPECT_EQ(one.said[1].second.ballot, 12U);
  // The old ballot again: the leader hears why not, and member 1 that it need not wait.
  one.hear(1, one.prepare(6, of(6, {3, 4})));
  ASSERT_EQ(one.said.size(), 2U);
  EXPECT_EQ(one.said[0].first, 0);
  EXPECT_EQ(one.said[0].second.step, Step::refuse);
  EXPECT_EQ(one.said[1].first, 1);
  EXPECT_EQ(one.said[1].second.step, Step::promise);
  EXPECT_EQ(text(one.said[1].second.members), "");
}

TEST(AgreementTree, CarriesTheNewestAcceptedProposalAndWhoIsGoneForWhom) {
  OneMember one(6, 1);
  one.member.gone(5, false);
  one.hear(0, one.prepare(12, of(6, {2, 3})));
  ASSERT_EQ(one.said.size(), 2U);
  AgreementMessage promise;
  promise.step = Step::promise;
  promise.ballot = 12;
  promise.accepted = 4;
  promise.ended = of(6, {4});
  promise.members = of(6, {2});
  promise.survivors = of(6, {2, 3});
  one.hear(2, promise);
  EXPECT_TRUE(one.said.empty()) << "member 3 has not answered";
  promise.accepted = 3;
  promise.members = promise.survivors = of(6, {3});
  one.hear(3, promise);
  ASSERT_EQ(one.said.size(), 1U);
  const AgreementMessage& answer = one.said[0].second;
  EXPECT_EQ(text(answer.members), "1 2 3 ");
  EXPECT_EQ(answer.accepted, 4U);
  EXPECT_EQ(text(answer.survivors), "2 3 ");
  EXPECT_EQ(text(answer.ended), "4 ");
  ASSERT_EQ(answer.views.size(), 1U);
  EXPECT_EQ(text(answer.views[0].members), "1 ");
  EXPECT_EQ(text(answer.views[0].gone), "5 ");
}

TEST(AgreementTree, AsksTheLeaderOnceALeaderThatGaveWayWaitsForIt) {
  OneMember one(6, 4);
  one.hear(3, one.prepare(12, of(6, {})));
  AgreementMessage ask;
  one.hear(1, ask);
  ASSERT_EQ(one.said.size(), 1U) << "member 3 may be waiting for member 1";
  EXPECT_EQ(one.said[0].first, 0);
  EXPECT_EQ(one.said[0].second.step, Step::ask);
  one.said.clear();
  one.member.gone(0, true);
  ASSERT_EQ(one.said.size(), 1U);
  EXPECT_EQ(one.said[0].first, 1);
}

TEST(AgreementTree, TellsTheOutcomeToWhomItOwesAnAnswer) {
  OneMember one(6, 2);
  one.hear(1, one.prepare(6, of(6, {3})));
  AgreementMessage decided;
  decided.step = Step::decided;
  decided.survivors = Places(6, true);
  one.hear(0, decided);
  ASSERT_EQ(one.said.size(), 2U);
  for (const int to : {1, 3}) {
    EXPECT_EQ(std::ranges::count_if(one.said,
                                    [to](const auto& words) {
                                      return words.first == to &&
                                             words.second.step == Step::decided;
                                    }),
              1)
        << to;
  }
}

TEST(AgreementTree, IsLeftByWhoseUpperMemberIsGone) {
  OneMember one(30, 20);
  one.hear(18, one.prepare(30, of(30, {})));
  one.said.clear();
  one.member.gone(18, true);
  ASSERT_EQ(one.said.size(), 1U);
  EXPECT_EQ(one.said[0].first, 0) << "the leader, not another member between";
  EXPECT_EQ(one.said[0].second.step, Step::ask);
}

}  // namespace
}  // namespace weft::detail
