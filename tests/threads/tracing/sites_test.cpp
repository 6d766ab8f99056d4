// Sites: how a tensor that is sent leads back to its allocation.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/threads/tracing/aligned_memory.hpp"
#include "tests/threads/tracing/traced.hpp"

namespace weft::dataflow {
namespace {

using traced::copies_since;
using traced::in_arena;
using traced::run_alone;
using traced::run_node;

TEST(TracedSites, AreRegisteredFromTheStepAfterTheirFirstSend) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    const auto first = run_node(tracer, "a", 2);
    const Tensor copy = tracer.to_send(first[1]);
    EXPECT_NE(copy.data(), first[1].data());
    EXPECT_TRUE(in_arena(world, copy));
    EXPECT_EQ(copy.as<float>()[99], 1.0F);
    for (const Tensor& tensor : run_node(tracer, "a", 2))
      EXPECT_FALSE(in_arena(world, tensor)) << "the step has not ended";
    tracer.next_step();
    for (int step = 2; step < 5; ++step) {
      const auto made = run_node(tracer, "a", 2);
      EXPECT_FALSE(in_arena(world, made[0]));
      EXPECT_TRUE(in_arena(world, made[1]));
      EXPECT_EQ(tracer.to_send(made[1]).data(), made[1].data());
      tracer.next_step();
    }
    const TracingCounters counters = tracer.counters();
    EXPECT_EQ(counters.steps, 4U);
    EXPECT_EQ(counters.plain_allocations, 7U);
    EXPECT_EQ(counters.registered_allocations, 3U);
    EXPECT_EQ(counters.sends, 4U);
    EXPECT_EQ(counters.copies, 1U);
    EXPECT_EQ(counters.bytes_copied, 400U);
    EXPECT_EQ(counters.registrations, 0U);
    EXPECT_EQ(counters.sites, 2U);
    EXPECT_EQ(counters.sent_sites, 1U);
    EXPECT_EQ(counters.late_sites, 0U);
  });
}

TEST(TracedSites, AreFoundThroughOperatorsInPlaceAliasesAndSlices) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    for (int step = 1; step < 4; ++step) {
      const Tensor made = run_node(tracer, "make", 1, {4, 100})[0];
      Tensor scaled;
      {
        const auto running = tracer.enter("scale in place");
        scaled = made.part(100, {2, 100});
        for (std::int64_t i = 0; i < 200; ++i)
          scaled.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
      }
      const Tensor columns = scaled.slice(1, 10, 3);
      ASSERT_FALSE(columns.dense());
      const Tensor sent = tracer.to_send(columns);
      EXPECT_TRUE(in_arena(world, sent));
      EXPECT_EQ(sent.shape(), Shape({2, 3}));
      if (step == 1) {
        ASSERT_TRUE(sent.dense());
        const auto values = sent.as<float>();
        EXPECT_EQ(std::vector(values.begin(), values.end()),
                  (std::vector{10.0F, 11.0F, 12.0F, 110.0F, 111.0F, 112.0F}));
      } else {
        EXPECT_EQ(sent.data(), columns.data());
        EXPECT_FALSE(sent.dense()) << "a put takes strides without packing";
      }
      tracer.next_step();
    }
    EXPECT_EQ(tracer.counters().copies, 1U);
    EXPECT_EQ(tracer.counters().bytes_copied, 6 * sizeof(float)) << "of the slice alone";
    EXPECT_EQ(tracer.counters().sites, 1U) << "the node in place allocates nothing";
  });
}

TEST(TracedSites, TheLatestAllocationOfAnAddressCounts) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    {
      const tests::ReuseOfAddresses reuse;
      const std::byte* const address = run_node(tracer, "first", 1)[0].data();
      const Tensor tensor = run_node(tracer, "second", 1)[0];
      ASSERT_EQ(tensor.data(), address);
      (void)tracer.to_send(tensor);
    }
    tracer.next_step();
    EXPECT_FALSE(in_arena(world, run_node(tracer, "first", 1)[0]));
    EXPECT_TRUE(in_arena(world, run_node(tracer, "second", 1)[0]));
  });
}

TEST(TracedSites, AStorageThatIsSentTwiceHasOneSite) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    for (int step = 1; step < 4; ++step) {
      const auto before = tracer.counters();
      const Tensor made = run_node(tracer, "a", 1)[0];
      const Tensor early = tracer.to_send(made);
      made.as<float>()[0] = 7;
      const Tensor late = tracer.to_send(made.part(0, {50}));
      EXPECT_EQ(late.as<float>()[0], 7.0F) << "the elements at the time of to_send()";
      EXPECT_EQ(early.as<float>()[0], step == 1 ? 0.0F : 7.0F);
      EXPECT_EQ(copies_since(tracer, before), step == 1 ? 2U : 0U);
      tracer.next_step();
    }
    EXPECT_EQ(tracer.counters().sent_sites, 1U);
  });
}

TEST(TracedSites, ThatAreMetLateAreCopiedInOneStep) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    const std::vector<std::size_t> lengths{2, 1, 2, 4, 4, 3, 4};
    const std::vector<std::uint64_t> copies{2, 0, 0, 2, 0, 0, 0};
    for (std::size_t step = 0; step < lengths.size(); ++step) {
      const auto before = tracer.counters();
      for (const Tensor& tensor : run_node(tracer, "sequence", lengths[step]))
        (void)tracer.to_send(tensor);
      EXPECT_EQ(copies_since(tracer, before), copies[step]) << "step " << step + 1;
      tracer.next_step();
    }
    EXPECT_EQ(tracer.counters().sent_sites, 4U);
    EXPECT_EQ(tracer.counters().late_sites, 2U);
    EXPECT_EQ(tracer.report().sites.at(3).sent_in, 4U);
  });
}

TEST(TracedSites, OfNodesWithinNodesAreCountedApart) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    TracingAllocator another(world);
    {
      const auto outer = tracer.enter("outer");
      (void)tracer.allocate(DType::f32, {1});
      {
        const auto others = another.enter("of another");
        const auto inner = tracer.enter("inner");
        (void)tracer.allocate(DType::f32, {1});
        (void)another.allocate(DType::f32, {1});
      }
      (void)tracer.to_send(tracer.allocate(DType::f32, {1}));
    }
    const auto report = tracer.report();
    ASSERT_EQ(report.sites.size(), 3U);
    EXPECT_EQ(report.sites[0].node, "outer");
    EXPECT_EQ(report.sites[0].sent_in, 0U);
    EXPECT_EQ(report.sites[1].node, "outer");
    EXPECT_EQ(report.sites[1].allocation, 1U);
    EXPECT_EQ(report.sites[1].sent_in, 1U);
    EXPECT_EQ(report.sites[2].node, "inner");
    EXPECT_EQ(another.counters().plain_allocations, 1U);
  });
}

TEST(TracedSites, ANodeThatRunsTwiceInAStepHasTheSameSites) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    for (int step = 1; step < 3; ++step) {
      for (int round = 0; round < 3; ++round) {
        const auto made = run_node(tracer, "cell", 2);
        EXPECT_EQ(in_arena(world, made[0]), step == 2);
        if (round == 1) (void)tracer.to_send(made[0]);
      }
      tracer.next_step();
    }
    EXPECT_EQ(tracer.counters().sites, 2U);
    EXPECT_EQ(tracer.counters().copies, 1U);
  });
}

TEST(TracedSites, ATensorThatOutlivesStepsIsCopiedOnceIfItIsReplaced) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    Tensor weights = run_node(tracer, "weights", 1)[0];
    const Tensor kept = run_node(tracer, "kept", 1)[0];
    for (int step = 1; step < 5; ++step) {
      weights = tracer.to_send(weights);
      weights.as<float>()[0] += 1;
      (void)tracer.to_send(kept);
      tracer.next_step();
    }
    EXPECT_EQ(weights.as<float>()[0], 4.0F);
    const auto report = tracer.report();
    EXPECT_EQ(report.sites[0].copies, 1U);
    EXPECT_EQ(report.sites[1].copies, 4U) << "the report tells of the tensor that was kept";
  });
}

TEST(TracedThreads, RunNodesAtOnceWithSitesOfTheirOwn) {
  constexpr int kWorkers = 4;
  constexpr int kNodes = 20;
  constexpr int kSteps = 5;
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    tests::Meeting meeting(kWorkers);
    std::array<std::vector<Tensor>, kWorkers> made;
    std::vector<std::thread> workers;
    for (int worker = 0; worker < kWorkers; ++worker)
      workers.emplace_back([&, worker] {
        for (int step = 1; step <= kSteps; ++step) {
          made[static_cast<std::size_t>(worker)].clear();
          for (int node = 0; node < kNodes; ++node)
            for (Tensor& tensor :
                 run_node(tracer, "node " + std::to_string(worker * kNodes + node), 3, {node + 1}))
              made[static_cast<std::size_t>(worker)].push_back(std::move(tensor));
          meeting.wait();
          // Another thread sends than the one that allocated, while others send too.
          const auto& others = made[static_cast<std::size_t>((worker + 1) % kWorkers)];
          for (std::size_t i = 0; i < others.size(); i += 3) {
            const Tensor sent = tracer.to_send(others[i + 1]);
            EXPECT_EQ(sent.as<float>().back(), 1.0F);
            EXPECT_EQ(sent.data() == others[i + 1].data(), step > 1);
          }
          meeting.wait();
          if (worker == 0) tracer.next_step();
          meeting.wait();
        }
      });
    for (std::thread& worker : workers) worker.join();
    const TracingCounters counters = tracer.counters();
    EXPECT_EQ(counters.sites, kWorkers * kNodes * 3U);
    EXPECT_EQ(counters.sent_sites, kWorkers * kNodes * 1U);
    EXPECT_EQ(counters.copies, kWorkers * kNodes * 1U);
    EXPECT_EQ(counters.registered_allocations, kWorkers * kNodes * (kSteps - 1U));
    EXPECT_EQ(counters.plain_allocations, kWorkers * kNodes * (2U * kSteps + 1U));
  });
}

}  // namespace
}  // namespace weft::dataflow
