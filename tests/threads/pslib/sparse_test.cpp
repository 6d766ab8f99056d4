// Sparse tables between ranks: equal to a reference that keeps every row by itself, for all orders
// and timings of calls.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "tests/threads/pslib/sparse_history.hpp"
#include "tests/threads/pslib/sparse_job.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using pslib::Optimizer;
using pslib::SparseOptions;
using pslib::SparseTable;
using std::chrono::milliseconds;

TEST(SparseTables, EqualRowsKeptOneByOneInAnyHistory) {
  constexpr std::pair<int, int> kJobs[] = {{1, 0}, {3, 0}, {1, 1}, {2, 2}, {3, 1}};
  for (unsigned seed = 0; seed < 25; ++seed) {
    const auto [workers, servers] = kJobs[seed % std::size(kJobs)];
    SCOPED_TRACE("seed " + std::to_string(seed));
    const History history(seed, static_cast<std::size_t>(workers));
    run_sparse(workers, servers, history.options(), [&](World& world, SparseTable& table) {
      history.replay(static_cast<std::size_t>(world.rank()), table, history.steps());
    });
  }
}

TEST(AsynchronousRows, TakeEveryPushOnce) {
  constexpr int kWorkers = 3;
  constexpr std::uint64_t kSteps = 40;
  for (unsigned seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Meeting meeting(kWorkers);
    std::atomic<std::uint64_t> updated = 0;
    run_sparse(
        kWorkers, 2, plain(Consistency::async()),
        [&](World& world, SparseTable& table) {
          std::mt19937 random(seed * 31 + static_cast<unsigned>(world.rank()));
          const Ids all{1, 2, 3, 4, 5, 6, 7, 8};
          const Floats ones(all.size() * 4, -1.0F);
          Floats rows(all.size() * 4);
          Floats before = rows;
          for (std::uint64_t step = 0; step < kSteps; ++step) {
            if (random() % 4 == 0) std::this_thread::yield();
            table.push(all, ones).or_throw();
            table.lookup(all, rows).or_throw();
            for (std::size_t i = 0; i < rows.size(); ++i)
              ASSERT_GE(rows[i], before[i] + 1.0F) << "its own push is in";
            before = rows;
          }
          table.flush().or_throw();
          meeting.wait();
          table.lookup(all, rows).or_throw();
          EXPECT_EQ(rows, Floats(rows.size(), static_cast<float>(kWorkers * kSteps)));
        },
        [&](const SparseTable& table) {
          EXPECT_EQ(table.version(), kWorkers * kSteps);
          updated += table.statistics().updated;
        });
    EXPECT_EQ(updated, 8 * kWorkers * kSteps);
  }
}

TEST(BoundedStaleRows, AreNeverSeenAheadOfTheSlowest) {
  constexpr int kWorkers = 3;
  constexpr int kSteps = 25;
  for (const std::uint32_t bound : {0U, 2U}) {
    SCOPED_TRACE(bound);
    std::array<std::atomic<int>, kWorkers> clocks{};
    run_sparse(kWorkers, 1, plain(Consistency::ssp(bound)), [&](World& world, SparseTable& table) {
      std::mt19937 random(static_cast<unsigned>(world.rank()));
      auto& own = clocks[static_cast<std::size_t>(world.rank())];
      const Ids ids{7};
      const Floats gradient(4, 1.0F);
      Floats row(4);
      for (int clock = 1; clock <= kSteps; ++clock) {
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        own = clock;
        table.push_lookup(ids, gradient, ids, row).or_throw();
        for (const auto& other : clocks) ASSERT_GE(other, clock - static_cast<int>(bound));
      }
      own = kSteps + 1;  // a worker that has left holds no other back
    });
  }
}

TEST(SparseSteps, CostOneRequestAndOneAnswerAShardAndNothingElse) {
  constexpr std::uint64_t kSteps = 20;
  SparseOptions options = plain(Consistency::bsp());
  options.optimizer = Optimizer::adagrad(0.1F);
  for (const int servers : {0, 2}) {
    SCOPED_TRACE(servers);
    Meeting meeting(2);
    run_sparse(2, servers, options, [&](World& world, SparseTable& table) {
      Ids ids(500);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i % 300;
      Floats rows(ids.size() * 4);
      table.lookup(ids, rows).or_throw();
      const auto step = [&] { table.push_lookup(ids, rows, ids, rows).or_throw(); };
      const auto sum = [&](Role role, std::string_view part) {
        TransferCounters sum;
        for (const auto& edge : world.report().edges)
          if (edge.role == role && contains(edge.slot, std::string(part))) sum += edge.counters;
        return sum;
      };
      step();
      meeting.wait();
      const auto before = all_counters(world);
      const auto requests = sum(Role::publishes, "requests");
      const auto answers = sum(Role::views, "answers");
      const auto allocations = arena(world, "data").allocations;
      meeting.wait();
      for (std::uint64_t i = 0; i < kSteps; ++i) step();
      meeting.wait();
      const auto cost = all_counters(world) - before;
      EXPECT_EQ(cost.bytes_moved, 0U) << "rows and gradients are read where they lie";
      EXPECT_EQ(cost.bytes_copied, 0U);
      EXPECT_EQ(cost.registrations, 0U);
      EXPECT_EQ(cost.control_messages, 0U);
      EXPECT_EQ(cost.credit_writes, 0U);
      EXPECT_EQ((sum(Role::publishes, "requests") - requests).transfers, kSteps * 2);
      EXPECT_EQ((sum(Role::views, "answers") - answers).transfers, kSteps * 2);
      EXPECT_EQ(arena(world, "data").allocations, allocations);
      meeting.wait();  // closing the table is no part of it
    });
  }
}

TEST(SparseShards, SplitTheRowsEvenlyAndCountThem) {
  std::array<std::atomic<std::uint64_t>, 5> rows{};
  constexpr std::uint64_t kRows = 3000;
  constexpr double kShare = 750;
  SparseOptions options = plain(Consistency::async());
  options.request_rows = 100;
  run_on(5, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 4});
    {
      SparseTable table = server.sparse_table("rows", options);
      if (server.works()) {
        Ids ids(kRows);
        for (std::size_t i = 0; i < kRows; ++i) ids[i] = i;
        table.push(ids, Floats(kRows * 4, 1.0F)).or_throw();
        table.flush().or_throw();
        std::array<std::uint64_t, 5> expected{};
        for (const std::uint64_t id : ids)
          ++expected[static_cast<std::size_t>(table.server_of(id))];
        for (std::size_t i = 1; i < 5; ++i) rows[i] += expected[i];
      } else {
        SparseTable* const tables[] = {&table};
        server.serve({}, tables).or_throw();
        const auto statistics = table.statistics();
        EXPECT_NEAR(static_cast<double>(statistics.rows), kShare, kShare / 4);
        EXPECT_EQ(statistics.updated, statistics.rows);
        EXPECT_EQ(statistics.requests, (statistics.rows + 99) / 100);
        rows[static_cast<std::size_t>(world.rank())] -= statistics.rows;
      }
    }
    (void)world.leave();
  });
  for (const auto& difference : rows) EXPECT_EQ(difference, 0U);
}

}  // namespace
}  // namespace weft::tests
