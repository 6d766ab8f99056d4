// The executor's report: what each edge cost, and why it went as it did.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

constexpr std::uint64_t kReportedSteps = 4;
constexpr std::chrono::milliseconds kLate{20};

/// Runs some steps of one edge from rank 0, whose sender is late, and hands each rank's report on.
void report_of(bool is_dynamic, SentMemory sent, const char* fabric,
               const std::function<void(const ExecutorReport&)>& check) {
  tests::run_on(2, tests::settings().with(Setting::fabric, fabric), [&](World& world) {
    Executor executor(world, one_edge(is_dynamic), reference_kernels(),
                      {.sent = sent, .way = EdgeWay::slots});
    for (std::uint64_t step = 0; step < kReportedSteps; ++step) {
      Tensors feeds;
      if (world.rank() == 0) {
        std::this_thread::sleep_for(kLate);
        feeds["x"] = executor.feed("x", {1000, 3});
        fill_at_random(feeds["x"], step);
      }
      EXPECT_TRUE(executor.run(feeds).ok());
    }
    check(executor.report());
  });
}

void run_reported_steps(World& world, Executor& executor) {
  for (std::uint64_t step = 0; step < kReportedSteps; ++step) {
    Tensors feeds;
    if (world.rank() == 0) fill_at_random(feeds["x"] = executor.feed("x"), step);
    EXPECT_TRUE(executor.run(feeds).ok());
  }
}

TEST(ExecutorReports, TellWhatAnEdgeCostAtEitherEnd) {
  constexpr std::uint64_t kBytes = 3000 * sizeof(float);
  for (const char* fabric : {"shm", "tcp"})
    report_of(false, SentMemory::plain, fabric, [&](const ExecutorReport& report) {
      SCOPED_TRACE(report.text());
      ASSERT_EQ(report.edges.size(), 1U);
      const EdgeActivity& one = report.edges[0];
      EXPECT_EQ(one.edge.name, "y:0");
      EXPECT_EQ(one.fabric, fabric);
      EXPECT_EQ(one.counters.transfers, kReportedSteps);
      EXPECT_EQ(one.counters.bytes_moved, kReportedSteps * kBytes);
      EXPECT_EQ(one.counters.registrations, 0U);
      EXPECT_EQ(report.counters.steps, kReportedSteps);
      if (report.rank == 0) {
        EXPECT_EQ(one.role, Role::puts);
        EXPECT_EQ(one.counters.bytes_copied, kReportedSteps * kBytes) << "staged";
        EXPECT_EQ(one.counters.work_requests, kReportedSteps);
      } else {
        EXPECT_EQ(one.role, Role::receives);
        EXPECT_EQ(one.counters.bytes_copied, 0U);
        EXPECT_GE(one.wait, kLate) << "the sender was late";
        EXPECT_EQ(one.probes, report.counters.probes);
      }
    });
}

TEST(ExecutorReports, AreTextAndJson) {
  report_of(true, SentMemory::arena, "shm", [&](const ExecutorReport& report) {
    const auto json = nlohmann::json::parse(report.json());
    std::vector<std::string> keys;
    for (const auto& [key, value] : json.items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"edges", "nodes", "probes", "rank", "sleeps", "steps",
                                              "tracing", "version"}));
    EXPECT_EQ(json["version"], 1);
    EXPECT_EQ(json["rank"], report.rank);
    const auto edge = json["edges"].at(0);
    keys.clear();
    for (const auto& [key, value] : edge.items()) keys.push_back(key);
    EXPECT_EQ(keys,
              (std::vector<std::string>{
                  "bytes", "bytes_copied", "bytes_moved", "control_messages", "credit_writes",
                  "credits", "edge", "fabric", "from", "kind", "probes", "registrations", "role",
                  "to", "transfers", "wait_ns", "why", "why_credits", "work_requests"}));
    EXPECT_EQ(edge["kind"], "dynamic");
    EXPECT_EQ(edge["role"], report.rank == 0 ? "puts" : "receives");
    EXPECT_EQ(edge["wait_ns"], report.edges[0].wait.count());
    const std::string text = report.text();
    for (const char* words : {"y:0 from rank 0 to 1: dynamic (", "by shm", "4 transfers",
                              "0 copied", "ms of wait", "4 steps"})
      EXPECT_NE(text.find(words), std::string::npos) << words << " in " << text;
  });
}

/// Viewed edges move no bytes; by rendezvous the report has bytes and waits as well.
TEST(ExecutorReports, OfViewedEdgesAndByRendezvousAreDrawnWithThePlan) {
  for (const EdgeWay way : {EdgeWay::views, EdgeWay::rendezvous}) {
    std::vector<ExecutorReport> reports(2);
    std::optional<Plan> plan;
    tests::run_on(2, tests::settings().with(Setting::fabric, "shm"), [&](World& world) {
      Executor executor(world, one_edge(false), reference_kernels(), {.way = way});
      run_reported_steps(world, executor);
      reports[std::size_t(world.rank())] = executor.report();
      if (world.rank() == 0) plan = executor.plan();
    });
    const std::string planned = dot(*plan, {});
    const std::string text = dot(*plan, reports);
    SCOPED_TRACE(text);
    const bool is_viewed = way == EdgeWay::views;
    EXPECT_NE(planned.find(is_viewed ? "label=\"viewed, " : "label=\"static, "), planned.npos);
    EXPECT_NE(text.find(is_viewed ? "\\n4 transfers, 0 bytes moved by shm"
                                  : "\\n4 transfers, 48000 bytes moved by shm"),
              text.npos);
    for (const char* words : {"\\nsender waited ", "\\nreceiver waited "})
      EXPECT_NE(text.find(words), text.npos) << words;
  }
}

TEST(ExecutorReports, AreDrawnWithThePlan) {
  std::vector<ExecutorReport> reports(2);
  std::optional<Plan> plan;
  tests::run_on(2, [&](World& world) {
    Executor executor(world, one_edge(false), reference_kernels(), {.way = EdgeWay::slots});
    run_reported_steps(world, executor);
    reports[std::size_t(world.rank())] = executor.report();
    if (world.rank() == 0) plan = executor.plan();
  });
  const auto label = [&](std::span<const ExecutorReport> of) {
    const std::string text = dot(*plan, of);
    const std::size_t begin = text.find("label=\"static, ") + 7;
    return text.substr(begin, text.find("\" style=", begin) - begin);
  };
  const std::string moved = "\\n4 transfers, 48000 bytes moved by shm";
  EXPECT_EQ(dot(*plan, {}), plan->dot()) << "what no report tells is drawn as planned";
  const std::string planned = label({});
  EXPECT_EQ(planned.find("\\n"), planned.npos);
  const std::string both = label(reports);
  EXPECT_TRUE(both.starts_with(planned + moved)) << both;
  EXPECT_NE(both.find("\\nsender waited "), both.npos);
  EXPECT_NE(both.find("\\nreceiver waited "), both.npos);
  const std::string sent = label(std::span(reports).first(1));
  EXPECT_TRUE(sent.starts_with(planned + moved)) << sent;
  EXPECT_EQ(sent.find("receiver"), sent.npos);
}

}  // namespace
}  // namespace weft::dataflow
