// The history of tables whose ranks stop and die and whose jobs are restarted, and the violations
// that its judge finds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <random>

#include "tests/seeds.hpp"
#include "tests/sim/push_code.hpp"
#include "tests/sim/table_history.hpp"
#include "tests/sim/table_lives.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using Event = TableEvent;

TEST(TableHistories, AreRightWhoeverStopsOrDiesAndHoweverOftenTheJobIsBegunAgain) {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const bool is_full = std::getenv("WEFT_TEST_FULL") != nullptr;
  const std::uint64_t count = given != nullptr ? 1 : seeds(is_full ? 1'000 : 100);
  const std::uint64_t first =
      given != nullptr ? std::stoull(given) : std::random_device{}() * std::uint64_t{10'000};
  std::cout << count << " seeds from " << first << " on\n";
  TableLives all;
  std::uint64_t pulls = 0;
  // A dead server without which the others go on is rare, so more seeds are tried until there is
  // one.
  const auto wanted = [&](std::uint64_t done) {
    return done < count || (count >= 100 && all.dead_servers == 0 && done < 5 * count);
  };
  for (std::uint64_t seed = first; wanted(seed - first) && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed) + " repeats it");
    const TableLives lives = live_through(seed);
    EXPECT_EQ(judge(lives.history), "");
    for (const std::string& failure : lives.failures) ADD_FAILURE() << failure;
    for (const Event& event : lives.history.events) pulls += event.kind == Event::Kind::pulled;
    all.restarts += lives.restarts;
    all.dead_workers += lives.dead_workers;
    all.dead_servers += lives.dead_servers;
    all.ended_by_death += lives.ended_by_death;
  }
  std::cout << pulls << " pulls, " << all.restarts << " restarts, " << all.dead_workers
            << " workers and " << all.dead_servers << " servers that others went on without, "
            << all.ended_by_death << " jobs that could not\n";
  if (count < 100) return;
  EXPECT_GT(pulls, 20 * count);
  EXPECT_GT(all.restarts, count / 4) << "else it tries nothing";
  EXPECT_GT(all.dead_workers, count / 10);
  EXPECT_GT(all.dead_servers, 0);
}

void live_with_replicas(std::uint64_t first, std::uint64_t count) {
  std::cout << count << " seeds from " << first << " on" << std::endl;
  TableLives all;
  for (std::uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed) + " repeats it");
    const TableLives lives = live_through(seed, p2p::sim::Plant::none, Lot::replicas_die);
    EXPECT_EQ(judge(lives.history), "");
    for (const std::string& failure : lives.failures) ADD_FAILURE() << failure;
    all.dead_workers += lives.dead_workers;
    all.dead_servers += lives.dead_servers;
    all.ended_by_death += lives.ended_by_death;
    all.lost += lives.lost;
  }
  std::cout << all.dead_workers << " workers and " << all.dead_servers
            << " servers that others went on without, " << all.ended_by_death
            << " jobs that could not, " << all.lost << " that lost a shard" << std::endl;
  if (count < 100) return;
  EXPECT_GT(all.dead_servers, count / 10) << "else it tries nothing";
  if (count < 1'000) return;
  EXPECT_GT(all.lost, 0);
}

TEST(TableHistories, OfReplicatedTablesEndOnlyWhereAllWhoHeldAShardAreDead) {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const bool is_full = std::getenv("WEFT_TEST_FULL") != nullptr;
  const std::uint64_t first =
      given != nullptr ? std::stoull(given) : std::random_device{}() * std::uint64_t{100'000};
  if (given != nullptr || !is_full) return live_with_replicas(first, given ? 1 : seeds(400));
  // A killed rank's open descriptors stay open in this process, so each `kSome` histories get a
  // process of their own.
  constexpr std::uint64_t kSome = 2'000;
  for (std::uint64_t done = 0; done < 20'000 && !HasFailure(); done += kSome)
    EXPECT_EXIT(
        (live_with_replicas(first + done, kSome), std::exit(testing::Test::HasFailure() ? 1 : 0)),
        testing::ExitedWithCode(0), "");
}

TEST(TableHistories, ShowThatAGetEndedBeforeAllOfItWasThere) {
  int noticed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    noticed += !judge(live_through(seed, p2p::sim::Plant::early_get).history).empty();
  EXPECT_GT(noticed, 0);
}

/// Histories made by hand: one shard of two cells, that does what it is told.
class Story {
 public:
  Story(const Consistency& consistency, std::size_t workers)
      : code_(consistency, workers), history_{consistency, workers, {}}, last_(workers) {}

  Story& begin(std::uint64_t checkpoint = 0) {
    add({.kind = Event::Kind::began, .version = checkpoint, .shards = {0, 0}});
    version_ = checkpoint;
    values_ = saved_[checkpoint];
    for (std::size_t worker = 0; worker < last_.size(); ++worker) pull(worker);
    return *this;
  }
  Story& push(std::size_t worker) {
    ++last_[worker];
    add({.kind = Event::Kind::pushed, .worker = worker});
    return *this;
  }
  /// An update of the last pushes of some workers.
  Story& apply(const std::vector<std::size_t>& workers) {
    for (const std::size_t worker : workers) {
      std::vector<float> gradient(values_.size());
      code_.write(gradient, worker, last_[worker]);
      for (std::size_t i = 0; i < gradient.size(); ++i)
        values_[i] -= gradient[i] / static_cast<float>(workers.size());
    }
    contributors_ = workers;
    saved_[++version_] = values_;
    return *this;
  }
  Story& pull(std::size_t worker) {
    add({.kind = Event::Kind::pulled, .worker = worker, .version = version_});
    history_.events.back().contributors = contributors_;
    history_.events.back().values = values_;
    return *this;
  }
  Story& step(std::size_t worker) { return push(worker).apply({worker}).pull(worker); }
  Story& end(std::size_t worker, Event::Kind how) {
    add({.kind = how, .worker = worker});
    return *this;
  }
  /// The last event, for the test to falsify.
  Story& change(const std::function<void(Event&)>& how) {
    how(history_.events.back());
    return *this;
  }

  std::vector<float>& values() { return values_; }
  const std::vector<float>& saved(std::uint64_t version) { return saved_[version]; }
  std::size_t cell() const { return code_.cell(); }
  std::string judged() const { return judge(history_); }

 private:
  void add(Event event) { history_.events.push_back(std::move(event)); }

  const PushCode code_;
  TableHistory history_;
  std::vector<std::size_t> last_;  // push, by worker
  std::uint64_t version_ = 0;
  std::vector<float> values_{};
  std::vector<std::size_t> contributors_{};
  std::map<std::uint64_t, std::vector<float>> saved_{
      {0, std::vector<float>(2 * code_.cell(), 0.0F)}};
};

void expect_finding(const Story& story, const std::string& finding) {
  const std::string found = story.judged();
  EXPECT_NE(found.find(finding), std::string::npos) << (found.empty() ? "nothing" : found);
}

TEST(TableJudge, FindsNothingInARightHistory) {
  Story ssp(Consistency::ssp(1), 2);
  ssp.begin().step(0).step(1).step(0).step(0 + 1).step(1).begin(2).step(0).step(1);
  EXPECT_EQ(ssp.judged(), "");
  Story first(Consistency::first(2), 3);
  first.begin().push(0).push(2).apply({0, 2}).pull(0).pull(2).push(1).pull(1);
  EXPECT_EQ(first.judged(), "") << "a late push was dropped";
}

TEST(TableJudge, FindsAPermitTooMany) {
  Story story(Consistency::ssp(1), 2);
  story.begin().step(0);
  EXPECT_EQ(story.judged(), "");
  expect_finding(story.step(0), "the bound is 1");
}

TEST(TableJudge, WaitsForNobodyWhoIsGone) {
  for (const Event::Kind how : {Event::Kind::closed, Event::Kind::died}) {
    Story story(Consistency::ssp(1), 2);
    EXPECT_EQ(story.begin().end(1, how).step(0).step(0).step(0).judged(), "");
  }
}

TEST(TableJudge, FindsATornPull) {
  Story story(Consistency::async(), 2);
  story.begin().step(0).step(0).change([&](Event& event) {
    const auto& before = story.saved(1);
    std::copy_n(before.begin(), story.cell(), event.values.begin());
  });
  expect_finding(story, "is torn");
}

TEST(TableJudge, FindsValuesOfAnotherVersionThanIsSaid) {
  Story story(Consistency::async(), 2);
  expect_finding(story.begin().step(0).change([](Event& event) { ++event.version; }),
                 "says version 2, and its values are those of 1");
}

TEST(TableJudge, FindsAVersionThatGoesBack) {
  Story story(Consistency::async(), 2);
  story.begin().step(1).push(0).apply({0}).pull(1).pull(1).change([&](Event& event) {
    event.version = 1;
    event.values = story.saved(1);
  });
  expect_finding(story, "without pushes that it saw");
}

TEST(TableJudge, FindsAPushThatWasLostOrTakenTwice) {
  Story lost(Consistency::async(), 2);
  expect_finding(lost.begin().push(0).pull(0), "without its push 1");
  Story twice(Consistency::async(), 2);
  expect_finding(twice.begin().push(0).apply({0}).apply({0}).pull(0), "applied twice");
  Story overtaken(Consistency::async(), 2);
  expect_finding(overtaken.begin().push(0).push(0).apply({0}).pull(0), "without the one before");
  Story invented(Consistency::async(), 2);
  expect_finding(invented.begin()
                     .push(0)
                     .apply({0})
                     .pull(0)
                     .push(1)
                     .change([](Event& event) { event.kind = Event::Kind::closed; })
                     .apply({1})
                     .pull(0),
                 "which it has not made");
}

TEST(TableJudge, FindsTwoHistoriesOfOneVersion) {
  Story story(Consistency::async(), 2);
  story.begin().push(0).push(1).apply({0}).pull(0);
  story.values() = story.saved(0);
  story.apply({1}).pull(1).change([](Event& event) { event.version = 1; });
  expect_finding(story, "other pushes under version 1");
}

TEST(TableJudge, FindsContributorsThatAreNotTrue) {
  Story named(Consistency::async(), 2);
  expect_finding(named.begin().step(0).change([](Event& event) {
    event.contributors = {0, 1};
  }),
                 "worker 1 among its contributors");
  Story left_out(Consistency::first(2), 3);
  left_out.begin().push(0).push(2).apply({0, 2}).pull(0).change(
      [](Event& event) { event.contributors = {0}; });
  expect_finding(left_out, "a push of worker 2, and its contributors are [0]");
}

TEST(TableJudge, FindsTooFewOfKAndAPushThatWasDroppedInTime) {
  Story few(Consistency::first(2), 3);
  expect_finding(few.begin().step(0), "by 1 workers of 3 that are left, k is 2");
  Story all_that_are_left(Consistency::first(2), 3);
  all_that_are_left.begin().end(1, Event::Kind::died).end(2, Event::Kind::closed).step(0);
  EXPECT_EQ(all_that_are_left.judged(), "");
  Story in_time(Consistency::first(1), 2);
  expect_finding(in_time.begin().push(0).pull(0), "was dropped, and was not late");
}

TEST(TableJudge, FindsAStepThatWasMadeWithoutAWorker) {
  Story story(Consistency::bsp(), 2);
  EXPECT_EQ(story.begin().push(0).push(1).apply({0, 1}).pull(0).pull(1).judged(), "");
  Story early(Consistency::bsp(), 2);
  expect_finding(early.begin().push(0).apply({0}).pull(0), "without push 1 of worker 1");
}

TEST(TableJudge, FindsAJobThatWasBegunFromAnotherVersionThanItsCheckpoints) {
  Story story(Consistency::async(), 2);
  story.begin().step(0).step(0).step(1).begin(2);
  EXPECT_EQ(story.judged(), "");
  expect_finding(story.begin(1).change([](Event& event) { event.version = 0; }),
                 "its values are those of 1");
  Story older(Consistency::async(), 2);
  older.begin().step(0).step(0).begin(2).change([&](Event& event) {
    event.version = 1;
    event.values = older.saved(1);
  });
  expect_finding(older, "other pushes of former jobs");
}

}  // namespace
}  // namespace weft::tests
