// Groups and subsets that shrink in any order while connections break and ranks die: no subset
// excludes a member of the shrunk world, and excluded ranks are told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "tests/seeds.hpp"
#include "tests/sim/simulated_job.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

bool is_told(const Status& status) {
  return status.code() == Code::fenced || status.code() == Code::partitioned;
}

std::vector<int> members_of(const Group& group) {
  return {group.members().begin(), group.members().end()};
}

/// Breaks every connection between the first `kept` ranks and the others.
void cut(SimJob& job, int kept, int ranks) {
  for (int a = 0; a < kept; ++a)
    for (int b = kept; b < ranks; ++b) job.disconnect(a, b);
}

TEST(ShrunkSubset, OfARankThatWasCutOffEndsNoSurvivor) {
  SimJob job(4, {}, simulated_settings());
  std::map<int, std::vector<int>> worlds;
  std::map<int, std::vector<int>> pairs;
  std::map<int, Status> told;
  std::vector<int> met;
  const SimOutcome outcome = job.run([&](World& world) {
    const Group pair = world.group().subset(std::vector{3, 2});
    job.sleep(world, milliseconds(1));
    if (world.rank() == 0) cut(job, 3, 4);
    job.sleep(world, milliseconds(1));
    if (world.rank() < 3) worlds[world.rank()] = members_of(*world.group().shrink());
    if (pair.rank() >= 0) {
      const auto shrunk = pair.shrink();
      if (shrunk.ok())
        pairs[world.rank()] = members_of(*shrunk);
      else
        told[world.rank()] = shrunk.status();
    }
    if (world.rank() == 3) return;
    Collectives group = Collectives::open(world, *world.group().shrink());
    if (group.run(barrier()).ok()) met.push_back(world.rank());
  });
  EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(worlds[rank], (std::vector{0, 1, 2})) << rank;
  EXPECT_EQ(pairs[2], std::vector{2});
  EXPECT_EQ(pairs.count(3), 0U) << "the first of the pair is out of the world";
  EXPECT_EQ(told[3].code(), Code::partitioned) << told[3].text();
  EXPECT_EQ(met.size(), 3U) << "a survivor was excluded";
}

TEST(ShrunkSubset, WithoutTheWorldsAnswerAsksForIt) {
  SimJob job(5, {}, simulated_settings());
  std::map<int, Status> told;
  std::map<int, std::vector<int>> pairs;
  const SimOutcome outcome = job.run([&](World& world) {
    const Group some = world.group().subset(std::vector{3, 4, 2});  // most of it is cut off
    job.sleep(world, milliseconds(1));
    if (world.rank() == 0) cut(job, 3, 5);
    job.sleep(world, milliseconds(1));
    if (some.rank() < 0) return job.sleep(world, milliseconds(20));
    const auto shrunk = some.shrink();
    if (shrunk.ok())
      pairs[world.rank()] = members_of(*shrunk);
    else
      told[world.rank()] = shrunk.status();
  });
  EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
  EXPECT_EQ(pairs, (std::map<int, std::vector<int>>{{2, {2}}}));
  EXPECT_EQ(told[3].code(), Code::partitioned) << told[3].text();
  EXPECT_EQ(told[4].code(), Code::partitioned) << told[4].text();
}

/// A job's ranks shrink groups of all kinds, then the world's group until no further rank is lost.
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed)
      : seed_(seed), ranks_(static_cast<int>(3 + seed % 4)), job_(ranks_, options(), settings()) {}

  void run() {
    const SimOutcome outcome = job_.run([this](World& world) { live(world); });
    for (const int rank : outcome.killed) {
      ends_.erase(rank);
      reported_.erase(rank);
    }
    for (const std::string& failure : outcome.failures)
      EXPECT_NE(failure.find("join"), std::string::npos) << outcome.text << ": " << failure;
    judge(outcome.killed);
  }
  bool lost_some() const { return !reported_.empty(); }
  int subsets() const { return subsets_; }

 private:
  SimOptions options() const {
    SimOptions options{.seed = seed_};
    options.faults.delayed = 0.1;
    options.faults.kills = seed_ % 3 == 0 ? 1 : 0;
    options.faults.kill_within = 200;
    options.faults.kill_after = 40;
    return options;
  }
  static Config settings() { return simulated_settings(); }

  void live(World& world) {
    std::mt19937_64 alike(seed_);  // the same on every rank
    std::mt19937_64 own(seed_ * 64 + static_cast<std::uint64_t>(world.rank()));
    std::vector<Group> groups{world.group()};
    for (int i = 0; i < 4; ++i) groups.push_back(drawn_subset(groups, alike));
    const auto kept = static_cast<int>(1 + alike() % static_cast<std::uint64_t>(ranks_ - 1));
    const bool cuts = alike() % 4 != 0;
    const auto loose = alike() % 3;
    job_.sleep(world, milliseconds(5) + microseconds(own() % 300));
    if (world.rank() == 0) break_some(cuts ? kept : 0, loose, own);
    for (int i = 0; i < 4; ++i) {
      const Group& group = groups[own() % groups.size()];
      job_.sleep(world, microseconds(own() % 400));
      if (group.rank() < 0) continue;
      const auto shrunk = group.shrink();
      if (!shrunk.ok()) return note(world, shrunk.status());
      ++subsets_;
      EXPECT_EQ(shrunk->members()[static_cast<std::size_t>(shrunk->rank())], world.rank()) << seed_;
    }
    job_.sleep(world, milliseconds(5));
    end(world);
  }

  Group drawn_subset(const std::vector<Group>& groups, std::mt19937_64& random) const {
    const Group& from = groups[random() % groups.size()];
    std::vector<int> places(static_cast<std::size_t>(from.size()));
    std::iota(places.begin(), places.end(), 0);
    for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[random() % i]);
    places.resize(1 + random() % places.size());
    return from.subset(places);
  }

  void break_some(int kept, std::uint64_t loose, std::mt19937_64& random) {
    if (kept > 0) cut(job_, kept, ranks_);
    for (std::uint64_t i = 0; i < loose; ++i) {
      const auto a = static_cast<int>(random() % static_cast<std::uint64_t>(ranks_));
      const auto b = static_cast<int>(random() % static_cast<std::uint64_t>(ranks_));
      if (a != b) job_.disconnect(a, b);
    }
  }

  void note(const World& world, const Status& status) {
    EXPECT_TRUE(is_told(status)) << "seed " << seed_ << ": rank " << world.rank() << ": "
                                 << status.text();
    reported_.emplace(world.rank(), status);
  }

  // The chain, as far as it goes.
  void end(World& world) {
    Group last = world.group();
    for (int same = 0; same < 2;) {
      const auto next = last.shrink();
      if (!next.ok()) return note(world, next.status());
      same = next->size() == last.size() ? same + 1 : 0;
      last = *next;
    }
    ends_[world.rank()] = members_of(last);
    // No rank leaves while others may still count it.
    job_.sleep(world, milliseconds(50));
  }

  void judge(const std::vector<int>& killed) {
    std::optional<std::vector<int>> chain;
    for (const auto& [rank, members] : ends_) {
      if (!chain) chain = members;
      EXPECT_EQ(members, *chain) << "seed " << seed_ << ": rank " << rank;
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool died = std::ranges::find(killed, rank) != killed.end();
      const bool belongs = chain && std::ranges::find(*chain, rank) != chain->end();
      if (died) continue;
      if (belongs) {
        EXPECT_TRUE(ends_.contains(rank) && !reported_.contains(rank))
            << "seed " << seed_ << ": rank " << rank << " belongs to the chain and was told "
            << (reported_.contains(rank) ? reported_.at(rank).text() : "nothing");
      } else {
        EXPECT_TRUE(reported_.contains(rank))
            << "seed " << seed_ << ": rank " << rank << " is out of "
            << "the world, and was not told";
      }
    }
  }

  const std::uint64_t seed_;
  const int ranks_;
  SimJob job_;
  std::map<int, std::vector<int>> ends_;
  std::map<int, Status> reported_;
  int subsets_ = 0;
};

TEST(ShrunkSubset, ExcludesNobodyWhoBelongsToTheWorldsChain) {
  const bool full = std::getenv("WEFT_TEST_FULL") != nullptr;
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const std::uint64_t first =
      given != nullptr ? std::stoull(given) : std::random_device{}() * std::uint64_t{100'000};
  const std::uint64_t count = given != nullptr ? 1 : full ? 20'000 : seeds(400);
  std::uint64_t lossy = 0;
  int subsets = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Sequence sequence(seed);
    sequence.run();
    lossy += sequence.lost_some() ? 1 : 0;
    subsets += sequence.subsets();
    ASSERT_FALSE(testing::Test::HasFailure()) << "WEFT_TEST_SEED=" << seed << " repeats it";
  }
  if (given != nullptr) return;
  EXPECT_GT(lossy, count / 4);
  EXPECT_GT(subsets, static_cast<int>(count));
}

}  // namespace
}  // namespace weft::tests
