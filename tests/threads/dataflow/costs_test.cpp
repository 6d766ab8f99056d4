// The cost of steps from step 2 on, by the counters of all ranks.
#include <gtest/gtest.h>

#include "tests/threads/dataflow/costs.hpp"

namespace weft::dataflow {
namespace {

constexpr std::array kSlotFabrics{"shm", "tcp"};

Graph replicated(std::int64_t rows = 4) {
  return replicate(training_model(rows), {.workers = {1, 2}, .servers = {0}}).graph;
}

void expect_nothing_else(const TransferCounters& cost) {
  EXPECT_EQ(cost.bytes_copied, 0U);
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_EQ(cost.control_messages, 0U);
}

TEST(Costs, AreOneWorkRequestForEachStaticTransferAndNothingElse) {
  const Graph graph = replicated();
  const Plan plan = partition(graph, {.ranks = 3});
  for (const Edge& edge : plan.edges) ASSERT_EQ(edge.kind, EdgeKind::fixed);
  for (const char* fabric : kSlotFabrics) {
    SCOPED_TRACE(fabric);
    const TransferCounters cost = cost_of(graph, kCostSteps, {.ranks = 3, .run = run_by(fabric)});
    expect_nothing_else(cost);
    EXPECT_EQ(cost.credit_writes, 0U) << "the loop proves that none are needed";
    EXPECT_EQ(cost.work_requests, kCostSteps * plan.edges.size());
    EXPECT_EQ(cost.bytes_moved, 2 * bytes_cut(plan, kCostSteps)) << "counted at both ends";
  }
}

TEST(Costs, AreALookAtEachViewedTensor) {
  const Graph graph = replicated();
  const Plan plan = partition(graph, {.ranks = 3, .hosts = {0, 0, 0}});
  for (const Edge& edge : plan.edges) {
    EXPECT_EQ(edge.kind, EdgeKind::viewed) << edge.name << ": " << edge.why;
    EXPECT_FALSE(edge.needs_credits) << edge.name << ": " << edge.why_credits;
  }
  const TransferCounters cost =
      cost_of(graph, kCostSteps, {.ranks = 3, .way = EdgeWay::views, .run = run_by("shm")});
  expect_nothing_else(cost);
  EXPECT_EQ(cost.bytes_moved, 0U);
  EXPECT_EQ(cost.credit_writes, 0U);
  EXPECT_EQ(cost.work_requests, kCostSteps * plan.edges.size());
}

TEST(Costs, AreTwoWorkRequestsForEachDynamicTransfer) {
  const Graph graph = spread_model(kAnySize);
  const Plan plan = partition(graph, {.ranks = 3});
  const std::size_t dynamic = dynamic_edges(plan);
  ASSERT_GE(dynamic, 3U) << plan.text();
  for (const char* fabric : kSlotFabrics) {
    SCOPED_TRACE(fabric);
    const TransferCounters cost = undisturbed(
        [&] { return cost_of(graph, kCostSteps, {.ranks = 3, .run = run_by(fabric)}); });
    expect_nothing_else(cost);
    EXPECT_EQ(cost.work_requests, kCostSteps * (plan.edges.size() + dynamic));
  }
}

TEST(Costs, OfEdgesWithCreditsAreCreditWritesToo) {
  for (const char* fabric : kSlotFabrics) {
    SCOPED_TRACE(fabric);
    const TransferCounters cost = cost_of(one_edge(false), kCostSteps, {.run = run_by(fabric)});
    EXPECT_EQ(cost.bytes_copied, 0U);
    EXPECT_EQ(cost.registrations, 0U);
    EXPECT_EQ(cost.work_requests, std::uint64_t(kCostSteps));
    EXPECT_GT(cost.credit_writes, 0U) << "nothing comes back";
    EXPECT_LE(cost.credit_writes, std::uint64_t(kCostSteps) + 1);
  }
}

/// The paper's RDMA.cp: with the analysis off each cut tensor is copied once for each of its edges.
TEST(Costs, WithTheAnalysisOffAreACopyOfAllThatIsCut) {
  for (const std::int64_t rows : {std::int64_t{4}, kAnySize}) {
    const Graph graph = spread_model(rows);
    const Plan plan = partition(graph, {.ranks = 3});
    for (const char* fabric : kSlotFabrics) {
      SCOPED_TRACE(std::string(fabric) + (rows == kAnySize ? ", open rows" : ""));
      const TransferCounters cost = cost_of(
          graph, kCostSteps, {.ranks = 3, .sent = SentMemory::plain, .run = run_by(fabric)});
      EXPECT_EQ(cost.bytes_copied, bytes_cut(plan, kCostSteps));
      EXPECT_EQ(cost.registrations, 0U);
      EXPECT_EQ(cost.work_requests, kCostSteps * (plan.edges.size() + dynamic_edges(plan)));
    }
  }
}

}  // namespace
}  // namespace weft::dataflow
