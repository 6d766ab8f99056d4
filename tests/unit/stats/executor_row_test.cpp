// Executors and their nodes in the stats segment.
#include "base/stats/executor_row.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/stats/stats_view.hpp"

namespace weft::stats {
namespace {

const std::vector<std::string> kNodes{"first (Conv)", "second (Relu)"};

TEST(ExecutorRow, ShowsTheStepsOfAnExecutor) {
  const auto stats = StatsSegment::create({});
  const auto view = StatsView::open(stats->file());
  EXPECT_TRUE(view.executors().empty());
  const std::string name(64, 'n');
  ExecutorRow row(stats, name, kNodes);
  EXPECT_EQ(row.number(), 1);
  row.begin_step(0);
  row.end_step(true);
  row.begin_step(1);
  EXPECT_EQ(row.step(), 1U);
  ASSERT_EQ(view.executors().size(), 1U);
  const ShownExecutor runs = view.executors()[0];
  EXPECT_EQ(runs.name, name);
  EXPECT_EQ(runs.number, 1);
  EXPECT_TRUE(runs.live);
  EXPECT_FALSE(runs.failed);
  EXPECT_EQ(runs.begun, 2U);
  EXPECT_EQ(runs.ended, 1U);
  row.end_step(false);
  EXPECT_TRUE(view.executors()[0].failed);
  EXPECT_EQ(view.executors()[0].ended, 1U);
  EXPECT_EQ(row.node(0), 0U) << "nodes have names only where events of all kinds are recorded";
  EXPECT_TRUE(view.nodes().empty());
}

TEST(ExecutorRow, NamesNodesAsLongAsThereAreEntries) {
  const auto stats = StatsSegment::create({.nodes = 3});
  const auto view = StatsView::copy_of(stats->file());
  auto one = std::make_unique<ExecutorRow>(stats, "one", kNodes);
  const ExecutorRow two(stats, "two", kNodes);
  const std::uint64_t first = one->node(0);
  EXPECT_NE(first, 0U);
  EXPECT_NE(two.node(0), 0U);
  EXPECT_NE(two.node(0), first);
  EXPECT_EQ(two.node(1), 0U);
  one.reset();
  auto nodes = StatsView::copy_of(stats->file()).nodes();
  ASSERT_EQ(nodes.size(), 3U) << "old records keep their names";
  EXPECT_EQ(nodes[0].number, first);
  EXPECT_EQ(nodes[0].name, "first (Conv)");
  const ExecutorRow three(stats, "three", kNodes);
  nodes = StatsView::copy_of(stats->file()).nodes();
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].number, three.node(0)) << "their entries were reused";
}

TEST(ExecutorRow, GoesOnUnseenWhenThereIsNoPlace) {
  const auto stats = StatsSegment::create({});
  std::vector<std::unique_ptr<ExecutorRow>> rows;
  for (std::size_t i = 0; i < kExecutors + 1; ++i)
    rows.push_back(std::make_unique<ExecutorRow>(stats, "name", kNodes));
  EXPECT_EQ(rows.back()->number(), 0);
  rows.back()->begin_step(4);
  rows.back()->end_step(true);
  EXPECT_EQ(rows.back()->step(), 4U);
  rows.front().reset();
  const auto view = StatsView::open(stats->file());
  EXPECT_FALSE(view.executors()[0].live);
  const ExecutorRow again(stats, "again", kNodes);
  EXPECT_EQ(again.number(), 1);
  EXPECT_EQ(view.executors()[0].name, "again");
}

}  // namespace
}  // namespace weft::stats
