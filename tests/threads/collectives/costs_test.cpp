// The relative costs of collectives, in messages and bytes, which no load on the machine changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <numeric>

#include "runtime/collective/choice.hpp"
#include "tests/support/ranks.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using detail::Choices;
using detail::Choosing;
using detail::Costs;
using detail::Hosts;
using detail::make_schedule;
using detail::Schedule;
using detail::ScheduleTask;
using detail::Step;

/// One host for each rank.
Hosts hosts_of(int ranks) {
  Hosts hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back({r});
  return hosts;
}

/// The traffic of one rank.
struct Traffic {
  std::int64_t sends = 0;
  std::int64_t sent_elements = 0;
  std::int64_t takes = 0;
  std::int64_t taken_elements = 0;
};

Traffic traffic_of(const Schedule& schedule) {
  Traffic traffic;
  for (const Step& move : schedule.moves()) {
    if (move.what == Step::What::send) {
      ++traffic.sends;
      traffic.sent_elements += move.region.count;
    } else if (move.comes()) {
      ++traffic.takes;
      traffic.taken_elements += move.region.count;
    }
  }
  return traffic;
}

std::int64_t log_of(int ranks) { return std::bit_width(static_cast<unsigned>(ranks) - 1); }

ScheduleTask task_of(CollectiveKind kind, std::int64_t count, int ranks) {
  ScheduleTask task{.kind = kind, .count = count, .any_order = true};
  for (int r = 0; r <= ranks; ++r) task.offsets.push_back(count * r / ranks);
  return task;
}

TEST(Cost, OfARingIsTwiceTheOthersPartsInAsManyMessages) {
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{ranks - 1}, std::int64_t{1000}})
      for (int r = 0; r < ranks; ++r) {
        const std::int64_t part = (count + ranks - 1) / ranks;
        const auto of = [&](CollectiveKind kind) {
          return traffic_of(
              *make_schedule(Algorithm::ring, task_of(kind, count, ranks), hosts_of(ranks), r));
        };
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements");
        const Traffic all = of(CollectiveKind::all_reduce);
        ASSERT_LE(all.sends, 2 * (ranks - 1));
        ASSERT_LE(all.sent_elements, 2 * (ranks - 1) * part);
        for (const CollectiveKind half :
             {CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
          ASSERT_LE(of(half).sends, ranks - 1);
          ASSERT_LE(of(half).sent_elements, (ranks - 1) * part);
        }
        if (count >= ranks) {
          ASSERT_EQ(all.sends, 2 * (ranks - 1));
        }
      }
}

TEST(Cost, OfDoublingIsALogarithmOfRounds) {
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (int r = 0; r < ranks; ++r) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks");
      const auto of = [&](CollectiveKind kind) {
        return make_schedule(Algorithm::doubling, task_of(kind, 10, ranks), hosts_of(ranks), r);
      };
      const auto all = of(CollectiveKind::all_reduce);
      ASSERT_LE(traffic_of(*all).takes, log_of(ranks));
      ASSERT_LE(traffic_of(*all).taken_elements, 10 * log_of(ranks));
      const auto barrier = of(CollectiveKind::barrier);
      ASSERT_LE(traffic_of(*barrier).sends, log_of(ranks));
      ASSERT_EQ(traffic_of(*barrier).sent_elements, 0);
      const auto news = of(CollectiveKind::broadcast);
      ASSERT_EQ(traffic_of(*news).taken_elements, r == 0 ? 0 : 10);
      ASSERT_LE(traffic_of(*news).sends, log_of(ranks));
    }
}

TEST(Cost, OfHalvingIsThatOfARingInALogarithmOfMessages) {
  for (const int ranks : {2, 4, 8})
    for (int r = 0; r < ranks; ++r) {
      const auto schedule = make_schedule(
          Algorithm::halving, task_of(CollectiveKind::all_reduce, 1000, ranks), hosts_of(ranks), r);
      const Traffic traffic = traffic_of(*schedule);
      ASSERT_LE(traffic.sends, 2 * log_of(ranks));
      // Halves are cut between cache lines.
      ASSERT_LE(traffic.sent_elements, 2 * (1000 - 1000 / ranks) + 2 * 64 * log_of(ranks));
    }
}

/// The time in seconds that the choice of algorithm expects on a common machine.
double expected(CollectiveKind kind, std::int64_t count, int ranks) {
  Choices choices;
  choices.within = Costs().shm;
  choices.between = Costs().tcp;
  choices.combine = Costs().combine;
  Choosing choosing{.task = task_of(kind, count, ranks), .element = 4, .wide_element = 4};
  choosing.task.any_order = false;
  const Hosts hosts = hosts_of(ranks);
  return detail::expected_time(detail::choose(choosing, hosts, choices), choosing, hosts, choices);
}

TEST(Cost, HasNoCliffAtAnyNumberOfRanksNorBelowAnElementForEach) {
  using enum CollectiveKind;
  for (const CollectiveKind kind : {all_reduce, broadcast, all_gather, reduce_scatter, barrier})
    for (const std::int64_t count : {1, 10, 3000, 300'000}) {
      for (const int ranks : {3, 5, 7})
        EXPECT_LE(expected(kind, count, ranks), 2 * expected(kind, count, ranks + 1))
            << "kind " << static_cast<int>(kind) << " of " << count << ", " << ranks << " ranks";
      EXPECT_LE(expected(barrier, 0, 7), expected(all_reduce, 1, 7));
      for (const int ranks : {2, 3, 5, 8}) {
        EXPECT_LE(expected(kind, 1, ranks), 1.05 * expected(kind, ranks, ranks));
        EXPECT_LE(expected(all_reduce, count, ranks),
                  expected(reduce, count, ranks) + expected(broadcast, count, ranks));
      }
    }
}

/// This rank's puts into the slots of collectives.
struct Posted {
  std::uint64_t puts = 0;
  std::uint64_t bytes = 0;
  Posted& operator+=(const Posted& other) {
    puts += other.puts;
    bytes += other.bytes;
    return *this;
  }
  friend Posted operator-(const Posted& a, const Posted& b) {
    return {a.puts - b.puts, a.bytes - b.bytes};
  }
};

Posted posted(const World& world) {
  Posted sum;
  const Report report = world.report();
  for (const EdgeReport& edge : report.edges)
    if (edge.role == Role::puts && edge.slot.starts_with("collective"))
      sum += {edge.counters.transfers, edge.counters.bytes_moved};
  return sum;
}

class CostOfRanks : public testing::TestWithParam<int> {};
#if defined(__SANITIZE_THREAD__)
INSTANTIATE_TEST_SUITE_P(Jobs, CostOfRanks, testing::Values(3));
#else
INSTANTIATE_TEST_SUITE_P(Jobs, CostOfRanks, testing::Values(2, 3, 4));
#endif

TEST_P(CostOfRanks, IsNoMoreByAPlanThanWithoutAndGrowsWithWhatIsAskedFor) {
  constexpr std::uint64_t kTimes = 5;
  std::mutex mutex;
  std::vector<Posted> all(5);
  run_on(GetParam(), settings().with(Setting::fabric, "tcp"), [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor word = world.allocate(DType::i32, {1});
    const Tensor large = world.allocate(DType::i32, {90'001});
    std::fill_n(large.as<std::int32_t>().data(), 90'001, world.rank());
    std::fill_n(word.as<std::int32_t>().data(), 1, world.rank());
    const std::vector<Call> calls{barrier(), all_reduce(word, Reduction::max),
                                  all_reduce(large, Reduction::max),
                                  reduce(large, large, Reduction::max, 0), broadcast(large, 0)};
    for (std::size_t i = 0; i < calls.size(); ++i) {
      Plan plan = group.plan(calls[i]);
      const auto cost_of = [&](const auto& run) {
        const Posted before = posted(world);
        for (std::uint64_t n = 0; n < kTimes; ++n) EXPECT_TRUE(run().ok());
        return posted(world) - before;
      };
      const Posted again = cost_of([&] { return plan.run(); });
      const Posted once = cost_of([&] { return group.run(calls[i]); });
      EXPECT_EQ(again.puts, once.puts) << "call " << i;
      EXPECT_EQ(again.bytes, once.bytes) << "call " << i;
      const std::lock_guard lock(mutex);
      all[i] += again;
    }
  });
  const Posted& barriers = all[0];
  const Posted& words = all[1];
  const Posted& large = all[2];
  EXPECT_GT(barriers.puts, 0U);
  EXPECT_LE(barriers.puts, words.puts);
  EXPECT_LE(barriers.bytes, words.bytes);
  EXPECT_LE(large.bytes, all[3].bytes + all[4].bytes);
  // Twice the other ranks' parts, and a head of 64 bytes for each pair of ranks.
  const auto ranks = static_cast<std::uint64_t>(GetParam());
  EXPECT_LE(large.bytes, kTimes * (ranks - 1) * (2 * (90'001 * 4 + 4 * ranks) + 64 * ranks));
}

}  // namespace
}  // namespace weft::tests
