// Members agree on the survivors, while members die, are cut off, and mistake each other for dead.
#include "runtime/health/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "tests/seeds.hpp"

namespace weft::detail {
namespace {

using End = Agreement::End;

struct AgreementFaults {
  int kills = 0;
  bool partition = false;
  int mistakes = 0;  ///< a member takes another, which lives, for dead
};

/// A group with messages, deaths and detections in an order that a seed draws.
class Table {
 public:
  Table(std::uint64_t seed, int size) : random_(seed), size_(size), side_(count(), 0) {
    for (int m = 0; m < size; ++m)
      members_.push_back(std::make_unique<Agreement>(
          size, m, [this, m](int to, const AgreementMessage& message) { send(m, to, message); }));
    alive_.assign(count(), true);
    links_.resize(count() * count());
    knows_.assign(count() * count(), false);
  }

  void run(const AgreementFaults& faults) {
    // Each fault happens within the first 60 steps, so that all of the seeds together meet every
    // stage.
    for (int i = 0; i < faults.kills; ++i) at(below(60), [this] { kill(below(size_)); });
    for (int i = 0; i < faults.mistakes; ++i)
      at(below(60), [this] { mistake(below(size_), below(size_)); });
    if (faults.partition) at(below(60), [this] { partition(); });
    for (int m = 0; m < size_; ++m)
      at(below(30), [this, m] {
        if (alive(m)) members_[at(m)]->begin();
      });
    for (int step = 0; step < 100'000 && take_step(step); ++step) {
    }
  }

  bool alive(int member) const { return alive_[at(member)]; }
  Agreement& member(int m) { return *members_[at(m)]; }
  int size() const { return size_; }
  int side(int m) const { return side_[at(m)]; }

  void kill(int member) {
    if (!alive(member)) return;
    alive_[at(member)] = false;
    died_.push_back(member);
    for (int other = 0; other < size_; ++other) {
      // Some of the messages under way arrive.
      auto& link = links_[index(member, other)];
      link.resize(static_cast<std::size_t>(below(static_cast<int>(link.size()) + 1)));
      if (other != member && side(other) == side(member)) notice(other, member, true);
    }
  }
  /// `who` gives `whom` up, and `whom` learns of it.
  void mistake(int who, int whom) {
    if (who == whom || !alive(who) || !alive(whom)) return;
    notice(who, whom, false);
    notice(whom, who, false);
  }
  void partition() {
    for (int m = 0; m < size_; ++m) side_[at(m)] = below(2);
    for (int a = 0; a < size_; ++a)
      for (int b = 0; b < size_; ++b)
        if (side(a) != side(b)) {
          links_[index(a, b)].clear();
          notice(a, b, false);
        }
  }

 private:
  struct Due {
    int step;
    std::function<void()> act;
  };
  std::size_t count() const { return static_cast<std::size_t>(size_); }
  static std::size_t at(int member) { return static_cast<std::size_t>(member); }
  std::size_t index(int a, int b) const { return at(a) * count() + at(b); }
  int below(int most) { return static_cast<int>(random_() % static_cast<std::uint64_t>(most)); }
  void at(int step, std::function<void()> act) { due_.push_back({step, std::move(act)}); }

  void send(int from, int to, const AgreementMessage& message) {
    if (!alive(from) || side(from) != side(to) || knows_[index(from, to)]) return;
    links_[index(from, to)].push_back(message);
  }
  /// Notices the end after the messages that have arrived, as a fabric does, and some time later.
  void notice(int who, int whom, bool ended) {
    at(now_ + 1 + below(200), [this, who, whom, ended] {
      if (!alive(who)) return;
      auto& link = links_[index(whom, who)];
      while (ended && !link.empty()) deliver(whom, who);
      link.clear();
      knows_[index(who, whom)] = true;
      member(who).gone(whom, ended);
    });
  }
  void deliver(int from, int to) {
    const AgreementMessage message = links_[index(from, to)].front();
    links_[index(from, to)].pop_front();
    if (alive(to) && !knows_[index(to, from)]) member(to).receive(from, message);
  }
  bool take_step(int step) {
    now_ = step;
    const auto late =
        std::find_if(due_.begin(), due_.end(), [step](const Due& due) { return due.step <= step; });
    if (late != due_.end()) {
      const auto act = std::move(late->act);
      due_.erase(late);
      act();
      return true;
    }
    std::vector<std::size_t> ready;
    for (std::size_t link = 0; link < links_.size(); ++link)
      if (!links_[link].empty()) ready.push_back(link);
    if (ready.empty()) return !due_.empty();
    const std::size_t link = ready[at(below(static_cast<int>(ready.size())))];
    deliver(static_cast<int>(link / count()), static_cast<int>(link % count()));
    return true;
  }

  std::mt19937_64 random_;
  const int size_;
  int now_ = 0;
  std::vector<std::unique_ptr<Agreement>> members_;
  std::vector<bool> alive_;
  std::vector<int> died_;
  std::vector<int> side_;
  std::vector<std::deque<AgreementMessage>> links_;
  std::vector<bool> knows_;
  std::vector<Due> due_;
};

std::string text(const Places& places) {
  std::string text;
  for (std::size_t m = 0; m < places.size(); ++m)
    if (places[m]) text += std::to_string(m) + ' ';
  return text;
}

/// Requires an end for each live member, and at most one answer. Returns the answer, if there is
/// one. `dead_too`: the answers of dead members count too.
std::optional<Places> expect_one_answer(Table& table, std::uint64_t seed, bool dead_too = true) {
  std::optional<Places> answer;
  for (int m = 0; m < table.size(); ++m) {
    Agreement& member = table.member(m);
    if (table.alive(m)) {
      EXPECT_NE(member.end(), End::none) << "seed " << seed << ": member " << m
                                         << " has no end; it waits for " << member.awaited();
    }
    if (member.end() != End::decided || !(dead_too || table.alive(m))) continue;
    if (!answer) answer = member.survivors();
    EXPECT_EQ(text(*answer), text(member.survivors())) << "seed " << seed << ": member " << m;
  }
  return answer;
}

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
    message.gone = message.ended = Places(4, false);
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
    message.gone = std::move(gone);
    message.ended = Places(3, false);
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
  message.gone = message.ended = Places(3, false);
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
