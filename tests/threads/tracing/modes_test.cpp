// The ways that tracing is compared with, and the report.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/threads/tracing/traced.hpp"

namespace weft::dataflow {
namespace {

using traced::copies_since;
using traced::in_arena;
using traced::run_alone;
using traced::run_node;

TEST(TracingModes, CutEdgesRegisterTheirSitesAllocationByAllocation) {
  run_alone([](World& world) {
    TracingAllocator tracer(world, {.mode = TracingMode::cut_edges});
    tracer.mark_cut("a", 1);
    for (std::uint64_t step = 1; step < 4; ++step) {
      const auto before = tracer.counters();
      const auto made = run_node(tracer, "a", 3);
      EXPECT_EQ(made[0].arena(), nullptr);
      EXPECT_NE(made[1].arena(), nullptr);
      EXPECT_FALSE(in_arena(world, made[1]));
      EXPECT_EQ(tracer.to_send(made[1]).data(), made[1].data());
      EXPECT_EQ(copies_since(tracer, before), 0U);
      // Its site is not one of those that were named, and the allocator does not learn it.
      EXPECT_TRUE(in_arena(world, tracer.to_send(made[2])));
      EXPECT_EQ(copies_since(tracer, before), 1U);
      EXPECT_EQ(tracer.counters().registrations, step);
      tracer.next_step();
    }
    EXPECT_EQ(tracer.counters().registered_allocations, 3U);
    EXPECT_EQ(tracer.counters().plain_allocations, 6U);
  });
}

TEST(TracingModes, WithoutAnalysisAllThatIsSentIsCopied) {
  run_alone([](World& world) {
    TracingAllocator tracer(world, {.mode = TracingMode::off});
    tracer.mark_cut("a", 0);
    const Tensor own = world.allocate(DType::f32, {10});
    for (std::uint64_t step = 1; step < 4; ++step) {
      const Tensor made = run_node(tracer, "a", 1)[0];
      EXPECT_EQ(made.arena(), nullptr);
      const Tensor sent = tracer.to_send(made);
      EXPECT_NE(sent.data(), made.data());
      EXPECT_TRUE(in_arena(world, sent));
      EXPECT_NE(tracer.to_send(own).data(), own.data());
      tracer.next_step();
    }
    EXPECT_EQ(tracer.counters().copies, 6U);
    EXPECT_EQ(tracer.counters().bytes_copied, 3 * 440U);
    EXPECT_EQ(tracer.counters().registered_allocations, 0U);
    EXPECT_EQ(tracer.counters().registrations, 0U);
  });
}

TEST(TracingModes, MarkedSitesAreNoOthersToTracing) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    tracer.mark_cut("a", 0);
    EXPECT_EQ(run_node(tracer, "a", 1)[0].arena(), nullptr);
    tracer.next_step();
    EXPECT_EQ(run_node(tracer, "a", 1)[0].arena(), nullptr);
    EXPECT_EQ(tracer.counters().registrations, 0U);
  });
}

std::vector<std::string> keys_of(const nlohmann::json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(TracingReports, AreTextAndJson) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    for (int step = 1; step < 4; ++step) {
      const auto made = run_node(tracer, "the \"node\"", 2);
      if (step > 1) (void)tracer.to_send(made[1]);
      tracer.next_step();
    }
    const TracingReport report = tracer.report();
    const auto json = nlohmann::json::parse(report.json());
    EXPECT_EQ(keys_of(json),
              (std::vector<std::string>{"bytes_copied", "copies", "late_sites", "mode",
                                        "plain_allocations", "rank", "registered_allocations",
                                        "registrations", "sends", "sent_sites", "sites", "steps",
                                        "version"}));
    EXPECT_EQ(json["version"], 1);
    EXPECT_EQ(json["rank"], 0);
    EXPECT_EQ(json["mode"], "sites");
    EXPECT_EQ(json["steps"], 3);
    EXPECT_EQ(json["late_sites"], 1);
    ASSERT_EQ(json["sites"].size(), 2U);
    EXPECT_EQ(keys_of(json["sites"][1]),
              (std::vector<std::string>{"allocation", "allocations", "bytes_copied", "copies",
                                        "node", "sent_in"}));
    EXPECT_EQ(json["sites"][0]["sent_in"], 0);
    EXPECT_EQ(json["sites"][1]["sent_in"], 2);
    EXPECT_EQ(json["sites"][1]["node"], "the \"node\"");
    EXPECT_EQ(json["sites"][1]["bytes_copied"], 400);
    const std::string text = report.text();
    for (const char* words :
         {"allocation 1 of \"the \\\"node\\\"\": sent since step 2, 3 allocations, 1 copies of 400",
          "rank 0, mode sites: 3 steps, 1 of 2 sites sent, 1 of them late, 5 plain and 1 "
          "registered allocations, 0 registrations, 2 sends, 1 copies of 400 bytes"})
      EXPECT_NE(text.find(words), std::string::npos) << words << " in " << text;
    EXPECT_EQ(text.find("allocation 0"), std::string::npos) << "it was not sent";
  });
}

}  // namespace
}  // namespace weft::dataflow
