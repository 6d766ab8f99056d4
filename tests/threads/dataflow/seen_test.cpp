// Tools see an executor: its step, the edge that it awaits, and its nodes in the records.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "base/stats/stats_view.hpp"
#include "runtime/world/services.hpp"
#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

using std::chrono::milliseconds;
using tests::soon;

stats::StatsView seen_of(World& world) { return stats::StatsView::of(stats_of(world)->bytes()); }

std::string slot_name(const stats::StatsView& seen, std::uint64_t slot) {
  for (const stats::ShownEdge& edge : seen.all_edges())
    if (edge.slot == slot) return edge.report.slot;
  return {};
}

Tensors feeds_of(Executor& executor, int rank) {
  Tensors feeds;
  if (rank == 0) fill_at_random(feeds["x"] = executor.feed("x", {1000, 3}), 1);
  return feeds;
}

TEST(ExecutorsSeen, ShowTheirStepAndTheEdgeThatTheyAwait) {
  for (const bool is_dynamic : {false, true}) {
    std::atomic<bool> is_seen = false;
    tests::run_on(2, [&](World& world) {
      Executor executor(world, one_edge(is_dynamic), reference_kernels(),
                        {.name = "my graph", .way = EdgeWay::slots});
      ASSERT_TRUE(executor.run(feeds_of(executor, world.rank())).ok());
      if (world.rank() == 0) {
        EXPECT_TRUE(soon([&] { return is_seen.load(); }));
        EXPECT_TRUE(executor.run(feeds_of(executor, 0)).ok());
        return;
      }
      const auto seen = seen_of(world);
      ASSERT_EQ(seen.executors().size(), 1U);
      EXPECT_EQ(seen.executors()[0].name, "my graph");
      EXPECT_EQ(seen.executors()[0].begun, 1U);
      EXPECT_EQ(seen.executors()[0].ended, 1U);
      std::thread looker([&] {
        EXPECT_TRUE(soon([&] {
          for (const stats::ShownWait& wait : seen.waits())
            if (wait.about.operation == stats::Operation::step) return true;
          return false;
        }));
        std::this_thread::sleep_for(milliseconds(20));
        const auto waits = seen.waits();
        ASSERT_EQ(waits.size(), 1U);
        EXPECT_EQ(waits[0].about.operation, stats::Operation::step);
        EXPECT_EQ(waits[0].about.peer, 0);
        EXPECT_EQ(waits[0].about.sequence, 1U);
        EXPECT_EQ(waits[0].about.executor, seen.executors()[0].number);
        EXPECT_EQ(waits[0].about.more, 0);
        EXPECT_EQ(slot_name(seen, waits[0].about.slot), "my graph/0 y:0");
        EXPECT_GT(stats::ns_of(Clock::now()), waits[0].since_ns);
        EXPECT_EQ(seen.executors()[0].begun, 2U);
        EXPECT_EQ(seen.executors()[0].ended, 1U);
        is_seen = true;
      });
      EXPECT_TRUE(executor.run({}).ok());
      looker.join();
      EXPECT_TRUE(seen.waits().empty());
      EXPECT_EQ(seen.executors()[0].ended, 2U);
    });
  }
}

TEST(ExecutorsSeen, ShowThatAStepHasFailedAndThatTheyAreGone) {
  tests::Meeting meeting(2);
  tests::run_on(2, [&](World& world) {
    const auto seen = seen_of(world);
    {
      Executor executor(world, one_edge(false), reference_kernels());
      if (world.rank() == 1) {
        EXPECT_EQ(executor.run({}, Deadline::after(milliseconds(30))).code(), Code::timeout);
        EXPECT_TRUE(seen.executors()[0].failed);
        EXPECT_EQ(seen.executors()[0].ended, 0U);
      }
      meeting.wait();
    }
    EXPECT_FALSE(seen.executors()[0].live);
  });
}

std::map<std::string, int> node_events(World& world) {
  const auto seen = seen_of(world);
  std::map<std::uint64_t, std::string> names;
  for (const stats::ShownNode& node : seen.nodes()) names[node.number] = node.name;
  std::map<std::string, int> counts;
  for (const stats::RecordedEvent& event : seen.recorder().all().events) {
    const bool is_node = event.event == stats::Event::node_ran;
    if (!is_node && event.event != stats::Event::edge_sent &&
        event.event != stats::Event::edge_received)
      continue;
    const std::string what = is_node
                                 ? names[event.slot]
                                 : slot_name(seen, event.slot) + (event.peer == 0 ? " <0" : " >1");
    ++counts[std::string(name(event.event)) + " " + what];
    EXPECT_GE(event.ended_ns, event.started_ns);
    EXPECT_LT(event.value, 5U) << "the step";
    EXPECT_LE(event.thread & 0xffffffff, 1U) << "run()'s caller and one more";
    EXPECT_EQ(event.thread >> 32U, seen.executors()[0].number);
  }
  return counts;
}

TEST(ExecutorsSeen, RecordEachNodeOfEachStepWhereAllIsRecorded) {
  constexpr int kSteps = 5;
  for (const char* level : {"control", "all"})
    tests::run_on(2, tests::settings().with(Setting::record, level), [&](World& world) {
      Executor executor(world, one_edge(false), reference_kernels(),
                        {.threads = 1, .way = EdgeWay::slots});
      const std::uint64_t begun = seen_of(world).recorder().last(0).begun;
      for (int step = 0; step < kSteps; ++step)
        ASSERT_TRUE(executor.run(feeds_of(executor, world.rank())).ok());
      const auto counts = node_events(world);
      if (std::string(level) == "control") {
        EXPECT_TRUE(counts.empty());
        EXPECT_TRUE(seen_of(world).nodes().empty());
        return;
      }
      EXPECT_GT(seen_of(world).recorder().last(0).begun, begun);
      const Graph& part = executor.plan().parts[std::size_t(world.rank())].graph;
      EXPECT_EQ(counts.size(), part.size());
      for (const auto& [what, count] : counts) EXPECT_EQ(count, kSteps) << what;
      EXPECT_TRUE(counts.contains(world.rank() == 0 ? "edge_sent graph/0 y:0 >1"
                                                    : "edge_received graph/0 y:0 <0"));
      EXPECT_TRUE(counts.contains(world.rank() == 0 ? "node_ran x (weft.Feed)"
                                                    : "node_ran z (weft.Scale)"));
    });
}

}  // namespace
}  // namespace weft::dataflow
