// A group's agreement with messages, deaths and detections in an order that a seed draws.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/health/agreement.hpp"

namespace weft::detail {

struct AgreementFaults {
  int kills = 0;
  bool partition = false;
  int mistakes = 0;  ///< a member takes another, which lives, for dead
  int within =
      60;  ///< steps in which the faults happen, so that all seeds together meet every stage
};

/// A group with messages, deaths and detections in an order that a seed draws.
class Table {
 public:
  Table(std::uint64_t seed, int size, int fan_out = kFanOut)
      : random_(seed), size_(size), sent_(count(), 0), side_(count(), 0) {
    for (int m = 0; m < size; ++m)
      members_.push_back(std::make_unique<Agreement>(
          size, m, [this, m](int to, const AgreementMessage& message) { send(m, to, message); },
          Quorum::most, fan_out));
    alive_.assign(count(), true);
    links_.resize(count() * count());
    knows_.assign(count() * count(), false);
  }

  void run(const AgreementFaults& faults) {
    for (int i = 0; i < faults.kills; ++i) at(below(faults.within), [this] { kill(below(size_)); });
    for (int i = 0; i < faults.mistakes; ++i)
      at(below(faults.within), [this] { mistake(below(size_), below(size_)); });
    if (faults.partition) at(below(faults.within), [this] { partition(); });
    for (int m = 0; m < size_; ++m)
      at(below(30), [this, m] {
        if (alive(m)) members_[at(m)]->begin();
      });
    for (int step = 0; step < 100'000 && take_step(step); ++step) {
    }
  }

  /// Plans an event for this step.
  void at(int step, std::function<void()> act) { due_.push_back({step, std::move(act)}); }
  /// Lets everybody notice the ends so far.
  void settle_news() {
    for (const Due& due : std::exchange(due_, {})) due.act();
  }

  bool alive(int member) const { return alive_[at(member)]; }
  Agreement& member(int m) { return *members_[at(m)]; }
  int size() const { return size_; }
  int side(int m) const { return side_[at(m)]; }
  /// Messages that the member has sent.
  int sent(int m) const { return sent_[at(m)]; }

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
  /// `who` declares `whom` dead, which learns that it was declared so.
  void declare_dead(int who, int whom) {
    if (who == whom || !alive(who) || !alive(whom)) return;
    notice(who, whom, false);
    at(now_ + 1 + below(200), [this, who, whom] {
      if (!knows_[index(whom, who)]) member(whom).accused_by(who);
    });
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
  void send(int from, int to, const AgreementMessage& message) {
    ++sent_[at(from)];
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
  std::vector<int> sent_;
  int now_ = 0;
  std::vector<std::unique_ptr<Agreement>> members_;
  std::vector<bool> alive_;
  std::vector<int> died_;
  std::vector<int> side_;
  std::vector<std::deque<AgreementMessage>> links_;
  std::vector<bool> knows_;
  std::vector<Due> due_;
};

inline std::string text(const Places& places) {
  std::string text;
  for (std::size_t m = 0; m < places.size(); ++m)
    if (places[m]) text += std::to_string(m) + ' ';
  return text;
}

/// Requires an end for each live member, and at most one answer. Returns the answer, if there is
/// one. `dead_too`: the answers of dead members count too.
inline std::optional<Places> expect_one_answer(Table& table, std::uint64_t seed,
                                               bool dead_too = true) {
  std::optional<Places> answer;
  for (int m = 0; m < table.size(); ++m) {
    Agreement& member = table.member(m);
    if (table.alive(m)) {
      EXPECT_NE(member.end(), Agreement::End::none)
          << "seed " << seed << ": member " << m << " has no end; it waits for "
          << member.awaited();
    }
    if (member.end() != Agreement::End::decided || !(dead_too || table.alive(m))) continue;
    if (!answer) answer = member.survivors();
    EXPECT_EQ(text(*answer), text(member.survivors())) << "seed " << seed << ": member " << m;
  }
  return answer;
}

}  // namespace weft::detail
