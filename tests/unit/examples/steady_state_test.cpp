#include "steady_state.hpp"

#include <gtest/gtest.h>

namespace {

using charlm::steady_state;
using weft::EdgeReport;
using weft::Report;
using weft::Role;
using weft::TransferCounters;

TransferCounters work(std::uint64_t transfers, std::uint64_t bytes) {
  return {.transfers = transfers, .bytes_moved = bytes, .work_requests = transfers};
}

EdgeReport edge(int peer, const char* slot, Role role, const TransferCounters& counters) {
  return {.peer = peer, .slot = slot, .role = role, .fabric = "shm", .counters = counters};
}

Report report(std::vector<EdgeReport> edges) {
  Report out;
  out.edges = std::move(edges);
  return out;
}

TEST(SteadyState, an_edge_has_the_work_between_the_reports) {
  const Report before =
      report({edge(1, "a", Role::puts, work(3, 30)), edge(2, "a", Role::puts, work(5, 50))});
  const Report after =
      report({edge(2, "a", Role::puts, work(9, 90)), edge(1, "a", Role::puts, work(4, 40))});
  const auto steady = steady_state(before, after, 2);
  ASSERT_EQ(steady.edges.size(), 2U);
  EXPECT_EQ(steady.edges[0].counters.transfers, 4U);
  EXPECT_EQ(steady.edges[1].counters.bytes_moved, 10U);
  EXPECT_EQ(steady.total().transfers, 5U);
}

TEST(SteadyState, two_ends_at_one_slot_are_one_edge) {
  const Report before =
      report({edge(1, "a", Role::views, work(100, 0)), edge(1, "a", Role::views, work(1, 10))});
  const Report after =
      report({edge(1, "a", Role::views, work(100, 0)), edge(1, "a", Role::views, work(4, 40))});
  const auto steady = steady_state(before, after, 3);
  ASSERT_EQ(steady.edges.size(), 1U);
  EXPECT_EQ(steady.edges[0].counters.transfers, 3U);
  EXPECT_EQ(steady.edges[0].counters.bytes_moved, 30U);
}

TEST(SteadyState, an_idle_edge_is_left_out_and_a_new_one_is_whole) {
  const Report before = report({edge(1, "idle", Role::puts, work(7, 7))});
  const Report after =
      report({edge(1, "idle", Role::puts, work(7, 7)), edge(1, "new", Role::puts, work(2, 16))});
  const auto steady = steady_state(before, after, 1);
  ASSERT_EQ(steady.edges.size(), 1U);
  EXPECT_EQ(steady.edges[0].slot, "new");
  EXPECT_EQ(steady.edges[0].counters.transfers, 2U);
}

TEST(SteadyState, a_transfer_that_both_ends_report_is_in_the_ranks_totals_once) {
  const Report writer = report({edge(0, "a", Role::puts, work(4, 32))});
  const Report reader = report(
      {edge(1, "a", Role::receives, {.transfers = 4, .bytes_moved = 32, .credit_writes = 2})});
  auto sum = steady_state({}, writer, 4).total();
  sum += steady_state({}, reader, 4).total();
  EXPECT_EQ(sum.transfers, 4U);
  EXPECT_EQ(sum.bytes_moved, 32U);
  EXPECT_EQ(sum.work_requests, 4U);
  EXPECT_EQ(sum.credit_writes, 2U);
}

TEST(SteadyState, the_work_of_paths_counts_too) {
  Report before, after;
  before.paths.resize(1);
  before.paths[0].counters.registrations = 2;
  after.paths.resize(1);
  after.paths[0].counters.registrations = 5;
  EXPECT_EQ(steady_state(before, after, 1).total().registrations, 3U);
}

TEST(SteadyState, counters_survive_the_way_as_numbers) {
  const TransferCounters all{1, 2, 3, 4, 5, 6, 1ULL << 52};
  const auto values = charlm::to_values(all);
  EXPECT_EQ(charlm::to_values(charlm::from_values(values)), values);
  EXPECT_EQ(charlm::from_values(values).registrations, 1ULL << 52);
  EXPECT_EQ(charlm::from_values(values).bytes_copied, 3U);
}

}  // namespace
