// The memory of traced tensors, and what the allocator's own bookkeeping costs.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <vector>

#include "tests/threads/tracing/aligned_memory.hpp"
#include "tests/threads/tracing/traced.hpp"
#include "tests/threads/verbs/allocation_count.hpp"

namespace weft::dataflow {
namespace {

using tests::aligned_blocks;
using traced::in_arena;
using traced::run_alone;
using traced::run_node;

TEST(TracedMemory, PlainMemoryGoesWithItsLastTensorEvenAfterItsWorld) {
  std::vector<Tensor> kept;
  const std::int64_t before = aligned_blocks();
  run_alone([&](World& world) {
    std::optional<TracingAllocator> tracer(world);
    const std::int64_t at_first = aligned_blocks();
    {
      const auto made = run_node(*tracer, "a", 3);
      EXPECT_EQ(aligned_blocks() - at_first, 3);
      kept = {made[1].slice(0, 5, 2), made[1]};
    }
    EXPECT_EQ(aligned_blocks() - at_first, 1);
    tracer.reset();
    EXPECT_EQ(kept[0].as<float>()[1], 1.0F);
  });
  kept.pop_back();
  EXPECT_EQ(kept[0].as<float>()[1], 1.0F);
  EXPECT_EQ(aligned_blocks() - before, 1);
  kept.clear();
  EXPECT_EQ(aligned_blocks() - before, 0);
}

TEST(TracedMemory, IsAligned) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    for (int step = 0; step < 2; ++step) {
      for (const Tensor& tensor : run_node(tracer, "a", 5, {3})) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
        (void)tracer.to_send(tensor);
      }
      tracer.next_step();
    }
  });
}

TEST(TracedMemory, OfTheArenaIsReused) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    ArenaReport settled;
    for (int step = 1; step <= 200; ++step) {
      for (const Tensor& tensor : run_node(tracer, "a", 4, {50'000})) (void)tracer.to_send(tensor);
      tracer.next_step();
      const ArenaReport now = tests::arena(world, "data");
      if (step == 2) settled = now;
      if (step <= 2) continue;
      EXPECT_EQ(now.reserved_bytes, settled.reserved_bytes);
      EXPECT_EQ(now.peak_bytes, settled.peak_bytes);
    }
    EXPECT_EQ(tests::arena(world, "data").used_bytes, 0U);
  });
}

TEST(TracedMemory, CostsNoBookkeepingOnceSettled) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    const Tensor sent = world.allocate(DType::f32, {100});
    const auto step = [&] {
      const auto outer = tracer.enter("a node whose name needs an allocation");
      const std::array<Tensor, 3> made{tracer.allocate(DType::f32, {1000}),
                                       tracer.allocate(DType::f32, {100}),
                                       tracer.allocate(DType::u8, {0})};
      const auto inner = tracer.enter("another node, whose name is long too");
      const Tensor more = tracer.allocate(DType::f64, {10});
      (void)tracer.to_send(sent);
    };
    step();
    tracer.next_step();
    const std::uint64_t before = tests::allocations();
    for (int i = 0; i < 100; ++i) {
      step();
      tracer.next_step();
    }
    EXPECT_EQ(tests::allocations() - before, 0U) << "besides the tensors' own memory";
    EXPECT_EQ(tracer.counters().plain_allocations, 101 * 4U);
  });
}

TEST(TracedMemory, OfTheWorldIsSentAsItIs) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    std::pmr::vector<float> in_a_container(100, &world.memory());
    const auto own = std::make_shared<std::array<float, 100>>();
    const std::array<Tensor, 3> tensors{world.allocate(DType::f32, {100}),
                                        world.adopt(own, DType::f32, {100}),
                                        Tensor::wrap(in_a_container.data(), DType::f32, {100})};
    for (const Tensor& tensor : tensors) EXPECT_EQ(tracer.to_send(tensor).data(), tensor.data());
    EXPECT_EQ(tracer.counters().sends, 3U);
    EXPECT_EQ(tracer.counters().copies, 0U);
    EXPECT_EQ(tracer.counters().sites, 0U);
  });
}

TEST(TracedMemory, OfNoElementsIsNeverCopied) {
  for (const TracingMode mode : {TracingMode::sites, TracingMode::cut_edges, TracingMode::off})
    run_alone([&](World& world) {
      TracingAllocator tracer(world, {.mode = mode});
      tracer.mark_cut("a", 0);
      for (int step = 0; step < 3; ++step) {
        const Tensor tensor = run_node(tracer, "a", 1, {0, 5})[0];
        EXPECT_EQ(tracer.to_send(tensor).shape(), tensor.shape()) << name(mode);
        tracer.next_step();
      }
      EXPECT_EQ(tracer.counters().copies, 0U) << name(mode);
    });
}

}  // namespace
}  // namespace weft::dataflow
