// Schedules of all ranks, executed without a network: they fit together, end, and combine in the
// promised order.
#include "runtime/collective/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <string>

#include "runtime/collective/choice.hpp"
#include "weft/error.hpp"

namespace weft::tests {
namespace {

using detail::Hosts;
using detail::make_schedule;
using detail::Schedule;
using detail::ScheduleTask;
using detail::Step;

/// An element is a text that says which ranks' elements were combined, and how.
using Values = std::vector<std::string>;

std::string combined(const std::string& a, const std::string& b) { return "(" + a + b + ")"; }

/// The group's binary tree over ranks [first, first + count).
std::string tree(int first, int count) {
  if (count == 1) return std::string(1, static_cast<char>('a' + first));
  const int half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)) / 2);
  return combined(tree(first, half), tree(first + half, count - half));
}

struct Rank {
  Values in;
  Values sum;
  Values out;
  std::vector<std::uint32_t> lane_made;
  std::vector<std::size_t> sent;
  std::vector<std::size_t> taken;
};

/// The schedules of all ranks, with room for one message between each two ranks.
class Job {
 public:
  Job(Algorithm algorithm, const ScheduleTask& task, const Hosts& hosts) {
    int size = 0;
    for (const auto& host : hosts) size += static_cast<int>(host.size());
    for (int r = 0; r < size; ++r) {
      auto schedule = make_schedule(algorithm, task, hosts, r);
      if (!schedule) return;
      const auto count = static_cast<std::size_t>(task.count);
      ranks_.push_back(
          {.in = Values(count, tree(r, 1)),
           .sum = Values(count),
           .out = Values(count),
           .lane_made = std::vector<std::uint32_t>(static_cast<std::size_t>(schedule->channels())),
           .sent = std::vector<std::size_t>(static_cast<std::size_t>(size)),
           .taken = std::vector<std::size_t>(static_cast<std::size_t>(size))});
      schedules_.push_back(std::move(*schedule));
    }
  }

  bool served() const { return !schedules_.empty(); }
  Rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  int size() const { return static_cast<int>(schedules_.size()); }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int r = 0; r < size(); ++r)
        for (std::uint32_t i = 0; i < schedule(r).moves().size(); ++i) moved |= make(r, i);
    }
    for (int r = 0; r < size(); ++r) {
      std::size_t made = 0;
      for (const auto channel : rank(r).lane_made) made += channel;
      ASSERT_EQ(made, schedule(r).moves().size()) << "rank " << r << " waits for ever";
    }
    for (const auto& [link, messages] : links_) ASSERT_TRUE(messages.empty());
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  const Schedule& schedule(int r) const { return schedules_[at(r)]; }
  Values& values(int r, Step::Place place) {
    return place == Step::Place::in    ? rank(r).in
           : place == Step::Place::sum ? rank(r).sum
                                       : rank(r).out;
  }

  bool make(int r, std::uint32_t index) {
    const Step& move = schedule(r).moves()[index];
    std::uint32_t& made = rank(r).lane_made[at(move.channel)];
    const auto channel = schedule(r).channel(move.channel);
    if (made >= channel.size() || channel[made] != index || !travels(r, index)) return false;
    ++made;
    return true;
  }

  bool travels(int r, std::uint32_t index) {
    const Step& move = schedule(r).moves()[index];
    const auto first = static_cast<std::size_t>(move.region.first);
    const auto count = static_cast<std::size_t>(move.region.count);
    Values& place = values(r, move.place);
    if (move.what == Step::What::send) {
      auto& link = links_[{r, move.peer}];
      std::size_t& sent = rank(r).sent[at(move.peer)];
      if (schedule(r).sends(move.peer)[sent] != index || !link.empty()) return false;
      ++sent;
      link.push_back(Values(place.begin() + static_cast<std::ptrdiff_t>(first),
                            place.begin() + static_cast<std::ptrdiff_t>(first + count)));
      return true;
    }
    for (std::size_t i = first; !move.comes() && i < first + count; ++i)
      (move.what == Step::What::upcast ? rank(r).sum : rank(r).out)[i] =
          (move.what == Step::What::upcast ? rank(r).in : rank(r).sum)[i];
    if (!move.comes()) return true;
    auto& link = links_[{move.peer, r}];
    std::size_t& taken = rank(r).taken[at(move.peer)];
    if (schedule(r).takes(move.peer)[taken] != index || link.empty()) return false;
    ++taken;
    const Values come = link.front();
    link.pop_front();
    EXPECT_EQ(come.size(), count);
    for (std::size_t i = 0; i < std::min(count, come.size()); ++i)
      if (move.what == Step::What::recv)
        rank(r).out[first + i] = come[i];
      else
        rank(r).sum[first + i] = move.theirs_first ? combined(come[i], place[first + i])
                                                   : combined(place[first + i], come[i]);
    return true;
  }

  std::vector<Schedule> schedules_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::deque<Values>> links_;
};

/// `hosts` hosts of `ranks` ranks each, in the group's order or dealt round.
Hosts hosts_of(int hosts, int ranks, bool dealt = false) {
  Hosts all(static_cast<std::size_t>(hosts));
  for (int r = 0; r < hosts * ranks; ++r)
    all[static_cast<std::size_t>(dealt ? r % hosts : r / ranks)].push_back(r);
  return all;
}

/// The ranks that `value` combines, sorted.
std::string members(std::string value) {
  std::erase_if(value, [](char c) { return c == '(' || c == ')'; });
  std::sort(value.begin(), value.end());
  return value;
}

void all_have(Job& job, std::int64_t count, bool in_order) {
  const std::string expected = tree(0, job.size());
  for (int r = 0; r < job.size(); ++r)
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string& value = job.rank(r).out[static_cast<std::size_t>(i)];
      ASSERT_EQ(value, job.rank(0).out[static_cast<std::size_t>(i)]) << "ranks differ";
      ASSERT_EQ(members(value), members(expected));
      if (in_order) {
        ASSERT_EQ(value, expected);
      }
    }
}

TEST(Schedule, ReducesForAllInTheOrderOfTheTreeUnlessAnyWillDo) {
  int served = 0;
  for (const int hosts : {1, 2, 3, 5})
    for (const int ranks : {1, 2, 3})
      for (const bool dealt : {false, true})
        for (const Algorithm algorithm :
             {Algorithm::ring, Algorithm::halving, Algorithm::doubling, Algorithm::two_level})
          for (const bool any_order : {false, true})
            for (const std::int64_t count : {1, 5, 13}) {
              const ScheduleTask task{.kind = CollectiveKind::all_reduce,
                                      .count = count,
                                      .any_order = any_order,
                                      .widens = count == 5,
                                      .channels = 3};
              Job job(algorithm, task, hosts_of(hosts, ranks, dealt));
              if (!job.served()) continue;
              ++served;
              SCOPED_TRACE(testing::Message() << "algorithm " << static_cast<int>(algorithm) << ", "
                                              << hosts << " hosts of " << ranks);
              job.run();
              all_have(job, count, !any_order);
              if (testing::Test::HasFatalFailure()) return;
            }
  EXPECT_GT(served, 200);
}

TEST(Schedule, BringsTheRootsTensorToAll) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::doubling, Algorithm::two_level})
    for (const int hosts : {2, 3, 5})
      for (const int ranks : {1, 3})
        for (const int root : {0, hosts * ranks - 1, ranks}) {
          const ScheduleTask task{.kind = CollectiveKind::broadcast,
                                  .count = 9,
                                  .root = root % (hosts * ranks),
                                  .channels = 4};
          Job job(algorithm, task, hosts_of(hosts, ranks));
          ASSERT_TRUE(job.served());
          job.run();
          for (int r = 0; r < job.size(); ++r)
            if (r != task.root) {
              ASSERT_EQ(job.rank(r).out, job.rank(task.root).in);
            }
        }
}

TEST(Schedule, ScattersAndGathersUnequalPartsByRing) {
  ScheduleTask task{.kind = CollectiveKind::reduce_scatter,
                    .count = 11,
                    .offsets = {0, 4, 4, 5, 11},
                    .any_order = true,
                    .channels = 3};
  Job scatters(Algorithm::ring, task, hosts_of(4, 1));
  scatters.run();
  task.kind = CollectiveKind::all_gather;
  Job gathers(Algorithm::ring, task, hosts_of(4, 1));
  gathers.run();
  for (int r = 0; r < 4; ++r)
    for (int i = 0; i < 11; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const int owner = i < 4 ? 0 : i < 5 ? 2 : 3;
      if (owner == r) {
        EXPECT_EQ(members(scatters.rank(r).out[at]), "abcd");
      } else {
        EXPECT_EQ(gathers.rank(r).out[at], tree(owner, 1));
      }
    }
}

TEST(Schedule, OfABarrierLetsNobodyThroughBeforeAllHaveCome) {
  for (const int ranks : {2, 3, 5, 8}) {
    // The set of ranks that each rank knows of: a message tells all that its sender knows.
    std::vector<unsigned> knows;
    std::vector<Schedule> schedules;
    for (int r = 0; r < ranks; ++r) {
      knows.push_back(1U << r);
      schedules.push_back(*make_schedule(Algorithm::doubling, {}, hosts_of(ranks, 1), r));
    }
    for (int round = 0; round < schedules[0].rounds(); ++round) {
      const auto before = knows;
      for (int r = 0; r < ranks; ++r)
        for (const Step& move : schedules[static_cast<std::size_t>(r)].moves())
          if (move.round == round && move.comes())
            knows[static_cast<std::size_t>(r)] |= before[static_cast<std::size_t>(move.peer)];
    }
    for (const unsigned known : knows) EXPECT_EQ(known, (1U << ranks) - 1);
  }
}

using detail::Choices;
using detail::choose;
using detail::Choosing;
using detail::Costs;
using detail::parse_costs;
using detail::parse_rules;

Choices usual() {
  Choices choices;
  choices.within = Costs().shm;
  choices.between = Costs().tcp;
  choices.combine = Costs().combine;
  return choices;
}

Choosing all_reduce_of(std::int64_t count, bool any_order = false) {
  return {.task = {.kind = CollectiveKind::all_reduce,
                   .count = count,
                   .any_order = any_order,
                   .channels = 4},
          .element = 4,
          .wide_element = 4};
}

TEST(Choice, TakesOneHopForLittleAndSharesOfHostsForMuch) {
  EXPECT_EQ(choose(all_reduce_of(2), hosts_of(3, 1), usual()), Algorithm::allgather_then_reduce);
  EXPECT_EQ(choose(all_reduce_of(10'000'000), hosts_of(3, 1), usual()), Algorithm::direct);
  EXPECT_EQ(choose(all_reduce_of(10'000'000, true), hosts_of(3, 4), usual()), Algorithm::two_level);
  Choosing broadcast = all_reduce_of(10'000'000);
  broadcast.task.kind = CollectiveKind::broadcast;
  broadcast.task.channels = 32;
  EXPECT_EQ(choose(broadcast, hosts_of(4, 1), usual()), Algorithm::ring);
}

TEST(Choice, FollowsACallBeforeARuleAndPassesOverARuleThatCantServe) {
  Choices choices = usual();
  const Choices rules = parse_rules("all_reduce@1k..2k=halving,all_reduce@..1m=doubling");
  choices.rules = rules.rules;
  choices.count = rules.count;
  EXPECT_EQ(choose(all_reduce_of(300), hosts_of(4, 1), choices), Algorithm::halving);
  EXPECT_EQ(choose(all_reduce_of(300), hosts_of(3, 1), choices), Algorithm::doubling);
  EXPECT_EQ(choose(all_reduce_of(2), hosts_of(4, 1), choices), Algorithm::doubling);
  Choosing asked = all_reduce_of(300, true);
  asked.asked = Algorithm::ring;
  EXPECT_EQ(choose(asked, hosts_of(4, 1), choices), Algorithm::ring);
  asked.task.any_order = false;
  EXPECT_THROW(choose(asked, hosts_of(4, 1), choices), Error);
}

TEST(Choice, RefusesWhatIsNoRuleAndSaysWhichPart) {
  const std::map<std::string, std::string> broken{
      {"all_reduce=rings", "no algorithm is called \"rings\""},
      {"allreduce=ring", "no operation is called \"allreduce\""},
      {"broadcast=ring,scan=ring", "\"scan=ring\": scan can't go by ring"},
      {"all_reduce@64k=ring", "no range"},
      {"all_reduce@64x..=ring", "\"64x\" is no size"},
      {"all_reduce@1m..64k=ring", "ends before it begins"},
      {"all_reduce", "no algorithm is called \"\""}};
  for (const auto& [text, says] : broken) try {
      (void)parse_rules(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), Code::bad_config);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
}

TEST(Choice, ReadsCostsAsTheyAreWrittenAndRefusesOthersByLine) {
  Costs costs;
  costs.tcp = {25e-6, 2.5e-6, 1.25e9};
  costs.combine = 7e9;
  const Costs read = parse_costs(write_costs(costs), "costs");
  EXPECT_DOUBLE_EQ(read.tcp.latency, 25e-6);
  EXPECT_DOUBLE_EQ(read.tcp.bandwidth, 1.25e9);
  EXPECT_DOUBLE_EQ(read.combine, 7e9);
  for (const char* text :
       {"", "tcp 1 2 3\n", "weft-costs 1\ntcp 1 2\n", "weft-costs 1\ntcp 1 2 x\n",
        "weft-costs 1\ntcp 1 2 -3\n", "weft-costs 1\nudp 1 2 3\n", "weft-costs 1\ncombine 1 2\n",
        "weft-costs 2\n"})
    EXPECT_THROW((void)parse_costs(text, "costs"), Error) << text;
  EXPECT_THROW((void)detail::read_costs("/nonexistent/costs"), Error);
}

}  // namespace
}  // namespace weft::tests
