// Heartbeats between ranks, in jobs whose ranks are silent, paused and cut off as a seed draws.
#include "p2p/transport/wireup/heartbeats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "tests/seeds.hpp"

namespace weft::p2p {
namespace {

constexpr int kPeriods = Heartbeats::kPeriods;
constexpr int kTicks = 10;  ///< of the simulation, in a period

/// Ranks with their own timers, connected as a graph; heartbeats travel for less than a period.
class Ranks {
 public:
  Ranks(std::uint64_t seed, int size) : random_(seed), size_(size), ranks_(count()) {
    for (int r = 0; r < size; ++r) {
      rank(r).beats = std::make_unique<Heartbeats>(
          r, size, [this, r](int to, BeatCall call) { send(r, to, call); });
      rank(r).phase = below(kTicks);
      rank(r).links.resize(count());
    }
  }

  void connect(int a, int b) {
    if (a == b || link(a, b).met) return;
    link(a, b).met = link(b, a).met = true;
    rank(a).beats->met(b);
    rank(b).beats->met(a);
  }
  void connect_all() {
    for (int a = 0; a < size_; ++a)
      for (int b = 0; b < a; ++b) connect(a, b);
  }
  /// Connects ranks as a random graph: complete, a star, with a few hubs, or with some random
  /// peers.
  void connect_somehow() {
    const int shape = below(4);
    if (shape == 0) return connect_all();
    for (int r = 1; r < size_; ++r) connect(r, shape == 1 ? 0 : below(r));
    const int few = 1 + size_ / 4;
    for (int r = 0; r < size_; ++r)
      for (int i = 0; i < (shape == 1 ? 0 : few); ++i)
        connect(r, shape == 2 ? size_ - 1 - i : below(size_));
  }

  void pass(int periods) {
    for (const int end = now_ + periods * kTicks; now_ < end; ++now_) {
      for (int r = 0; r < size_; ++r)
        if (!rank(r).dead && now_ >= rank(r).paused_until && (now_ - rank(r).phase) % kTicks == 0)
          beat(r);
      deliver();
    }
  }
  void die(int r) { rank(r).dead = true; }
  /// Pauses a rank, unless it was paused recently.
  void pause(int r, int periods) {
    if (now_ < rank(r).paused_until + 3 * kTicks) return;
    rank(r).paused_until = now_ + periods * kTicks;
    rank(r).was_stopped = periods >= kPeriods / 4;
  }
  void cut(int from, int to) { rank(from).links[at(to)].cut = rank(to).links[at(from)].cut = true; }

  bool is_dead(int r) const { return ranks_[at(r)].dead; }
  bool are_connected(int a, int b) const { return ranks_[at(a)].links[at(b)].met; }
  bool has_given_up(int a, int b) const { return ranks_[at(a)].links[at(b)].given_up; }
  std::uint64_t signs() const { return signs_; }
  int size() const { return size_; }
  int below(int most) { return static_cast<int>(random_() % static_cast<std::uint64_t>(most)); }

 private:
  struct Link {
    bool met = false;
    bool cut = false;
    bool heard = true;
    bool given_up = false;
  };
  struct Rank {
    std::unique_ptr<Heartbeats> beats;
    int phase = 0;
    int paused_until = 0;
    bool was_stopped = false;
    bool dead = false;
    std::vector<Link> links;
  };
  struct Sign {
    int due;
    int from;
    int to;
    int call;  ///< -1: nothing but a sign of life
  };

  std::size_t count() const { return static_cast<std::size_t>(size_); }
  static std::size_t at(int r) { return static_cast<std::size_t>(r); }
  Rank& rank(int r) { return ranks_[at(r)]; }
  Link& link(int a, int b) { return rank(a).links[at(b)]; }

  void beat(int r) {
    if (std::exchange(rank(r).was_stopped, false)) rank(r).beats->excuse();
    rank(r).beats->pass();
    for (int other = 0; other < size_; ++other) {
      Link& l = link(r, other);
      if (!l.met || l.given_up) continue;
      if (rank(r).beats->beats_with(other)) send(r, other);
      if (rank(r).beats->silence(other, std::exchange(l.heard, false)) < kPeriods) continue;
      l.given_up = true;
      rank(r).beats->gone(other);
    }
  }
  void send(int from, int to) { put({now_ + 1 + below(kTicks - 1), from, to, -1}); }
  void send(int from, int to, BeatCall call) {
    put({now_ + 1 + below(kTicks - 1), from, to, static_cast<int>(call)});
  }
  void put(const Sign& sign) {
    ++signs_;
    if (!link(sign.from, sign.to).cut) under_way_.push_back(sign);
  }
  void deliver() {
    // A paused rank gets them late, in their order.
    std::vector<Sign> late;
    const auto all = std::exchange(under_way_, {});
    for (const Sign& sign : all) {
      if (sign.due > now_ || now_ < rank(sign.to).paused_until) {
        late.push_back(sign);
        continue;
      }
      if (rank(sign.to).dead || link(sign.to, sign.from).given_up) continue;
      link(sign.to, sign.from).heard = true;
      if (sign.call >= 0)
        rank(sign.to).beats->received(sign.from, static_cast<BeatCall>(sign.call));
    }
    late.insert(late.end(), under_way_.begin(), under_way_.end());
    under_way_ = std::move(late);
  }

  std::mt19937_64 random_;
  const int size_;
  int now_ = 0;
  std::vector<Rank> ranks_;
  std::vector<Sign> under_way_;
  std::uint64_t signs_ = 0;
};

constexpr std::uint64_t kSeeds = tests::seeds(400);
/// The most periods from a rank's last heartbeat until every connected rank has given it up.
constexpr int kUntilDead = Heartbeats::kAlarm + kPeriods + 4;

int size_of(std::uint64_t seed) { return 2 + static_cast<int>(seed * 7 % 29); }

/// All live ranks that were connected to a dead rank have given it up, and no other rank was given
/// up, except by pairs for which `is_cut` holds: these have given each other up.
template <typename IsCut>
void expect_given_up_rightly(const Ranks& ranks, std::uint64_t seed, const IsCut& is_cut) {
  for (int a = 0; a < ranks.size(); ++a)
    for (int b = 0; b < ranks.size(); ++b) {
      if (a == b || ranks.is_dead(a) || !ranks.are_connected(a, b)) continue;
      EXPECT_EQ(ranks.has_given_up(a, b), ranks.is_dead(b) || is_cut(a, b))
          << "seed " << seed << ": rank " << b << " by rank " << a << " of " << ranks.size();
    }
}
constexpr auto kNoCut = [](int, int) { return false; };

TEST(Beats, GoToFewWhereAllAreConnected) {
  constexpr int kSize = 100;
  Ranks ranks(1, kSize);
  ranks.connect_all();
  ranks.pass(5);
  const auto before = ranks.signs();
  ranks.pass(10);
  EXPECT_GE(ranks.signs() - before, 10u * kSize * Heartbeats::kWatchers);
  EXPECT_LE(ranks.signs() - before, 20u * kSize * Heartbeats::kWatchers);
}

TEST(Beats, FindASilentRankWhoeverHasMetIt) {
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    Ranks ranks(seed, size_of(seed));
    ranks.connect_somehow();
    ranks.pass(ranks.below(6));
    for (int i = 0, deaths = 1 + ranks.below(3); i < deaths; ++i) {
      ranks.die(ranks.below(ranks.size()));
      ranks.pass(ranks.below(5));
    }
    ranks.pass(kUntilDead);
    expect_given_up_rightly(ranks, seed, kNoCut);
  }
}

TEST(Beats, FindEveryPairThatIsCutInTwo) {
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    Ranks ranks(seed, std::max(size_of(seed), 4));
    ranks.connect_all();
    ranks.pass(3);
    // Cuts off hosts with consecutive ranks, or with random ones.
    std::vector<int> side(static_cast<std::size_t>(ranks.size()));
    const int border = 1 + ranks.below(ranks.size() - 1);
    for (int r = 0; r < ranks.size(); ++r)
      side[static_cast<std::size_t>(r)] = seed % 2 != 0 ? (r < border ? 0 : 1) : ranks.below(2);
    const auto is_cut = [&](int a, int b) {
      return side[static_cast<std::size_t>(a)] != side[static_cast<std::size_t>(b)];
    };
    for (int a = 0; a < ranks.size(); ++a)
      for (int b = 0; b < a; ++b)
        if (is_cut(a, b)) ranks.cut(a, b);
    ranks.pass(kUntilDead);
    expect_given_up_rightly(ranks, seed, is_cut);
  }
}

TEST(Beats, TakeNobodyForDeadWhoIsOnlyLate) {
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    Ranks ranks(seed, size_of(seed));
    ranks.connect_somehow();
    for (int i = 0; i < 8; ++i) {
      // Long enough for an alarm.
      ranks.pause(ranks.below(ranks.size()), ranks.below(kPeriods - 4));
      ranks.pass(ranks.below(kPeriods));
    }
    ranks.pass(3 * kPeriods);
    expect_given_up_rightly(ranks, seed, kNoCut);
  }
}

TEST(Beats, GoToFewAgainAfterAnAlarm) {
  constexpr int kSize = 40;
  Ranks ranks(3, kSize);
  ranks.connect_all();
  ranks.pass(5);
  ranks.pause(7, Heartbeats::kAlarm + 3);
  ranks.pass(Heartbeats::kAlarm + 2);
  auto before = ranks.signs();
  ranks.pass(1);
  EXPECT_GT(ranks.signs() - before, kSize * (kSize - 2)) << "no alarm";
  ranks.pass(3 * kPeriods);
  before = ranks.signs();
  ranks.pass(10);
  EXPECT_LE(ranks.signs() - before, 20u * kSize * Heartbeats::kWatchers);
}

}  // namespace
}  // namespace weft::p2p
