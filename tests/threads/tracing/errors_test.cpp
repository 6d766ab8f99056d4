// Bad input to a TracingAllocator: typed errors that name what is wrong.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/gpu_memory.hpp"
#include "tests/threads/tracing/traced.hpp"

namespace weft::dataflow {
namespace {

using tests::tells;
using tests::thrown_by;
using traced::run_alone;
using traced::run_node;

TEST(TracingErrors, AnAllocationOutsideANode) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    TracingAllocator another(world);
    const auto allocate = [&] { (void)tracer.allocate(DType::f32, {1}); };
    EXPECT_TRUE(tells(thrown_by(allocate), Code::bad_argument, {"this thread runs no node"}));
    const auto of_another = another.enter("a");
    EXPECT_TRUE(tells(thrown_by(allocate), Code::bad_argument, {"this thread runs no node"}));
    const auto running = tracer.enter("a");
    std::thread([&] {
      EXPECT_TRUE(tells(thrown_by(allocate), Code::bad_argument, {"this thread runs no node"}));
    }).join();
    allocate();
  });
}

TEST(TracingErrors, ANodeThatRunsAlready) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    {
      const auto running = tracer.enter("a");
      const auto again = [&] { (void)tracer.enter("a"); };
      EXPECT_TRUE(tells(thrown_by(again), Code::bad_argument, {"\"a\" runs already"}));
      std::thread([&] {
        EXPECT_TRUE(tells(thrown_by(again), Code::bad_argument, {"\"a\" runs already"}));
      }).join();
      EXPECT_TRUE(tells(thrown_by([&] { tracer.next_step(); }), Code::bad_argument,
                        {"next_step", "\"a\" still runs"}));
      (void)tracer.allocate(DType::f32, {1});
    }
    const auto anew = tracer.enter("a");
    EXPECT_EQ(tracer.counters().steps, 0U);
  });
}

TEST(TracingErrors, NamesThatAreNone) {
  run_alone([](World& world) {
    TracingAllocator tracer(world);
    EXPECT_TRUE(tells(thrown_by([&] { (void)tracer.enter(""); }), Code::bad_argument,
                      {"1 to 200 bytes, not 0"}));
    EXPECT_TRUE(tells(thrown_by([&] { tracer.mark_cut(std::string(201, 'n'), 0); }),
                      Code::bad_argument, {"not 201"}));
    const std::string longest(200, 'n');
    EXPECT_EQ(run_node(tracer, longest, 1).size(), 1U);
  });
}

TEST(TracingErrors, TensorsThatAreNotTraced) {
  run_alone([](World& world) {
    std::vector<float> mine(8);
    TracingAllocator tracer(world);
    TracingAllocator another(world);
    const auto sending = [&](const Tensor& tensor) {
      return thrown_by([&] { (void)tracer.to_send(tensor); });
    };
    EXPECT_TRUE(tells(sending(Tensor::wrap(mine.data(), DType::f32, {2, 4})), Code::bad_argument,
                      {"to_send", "f32[2, 4] is in memory that neither"}));
    EXPECT_TRUE(tells(sending(Tensor()), Code::bad_argument, {"to_send", "the tensor"}));
    const tests::GpuMemory gpu;
    EXPECT_TRUE(tells(sending(gpu.tensor({2})), Code::bad_argument, {"to_send", "GPU 3"}));
    Tensor moved = run_node(tracer, "a", 1)[0];
    const Tensor there = std::move(moved);
    EXPECT_TRUE(tells(sending(moved), Code::bad_argument, {"to_send", "the tensor"}));
    EXPECT_TRUE(tells(sending(run_node(another, "b", 2)[1]), Code::bad_argument,
                      {"f32[100] is of another TracingAllocator: allocation 1 of its node \"b\""}));
    EXPECT_EQ(tracer.counters().sends, 0U);
    EXPECT_EQ(tracer.counters().sent_sites, 0U);
  });
}

TEST(TracingErrors, ATensorOfAnotherWorld) {
  run_alone([](World& world) {
    run_alone([&](World& other) {
      TracingAllocator tracer(world);
      const Tensor tensor = other.allocate(DType::f32, {3});
      EXPECT_TRUE(tells(thrown_by([&] { (void)tracer.to_send(tensor); }), Code::bad_argument,
                        {"f32[3] is in memory that neither"}));
    });
  });
}

TEST(TracingErrors, MoreSitesThanAllowed) {
  run_alone([](World& world) {
    TracingAllocator tracer(world, {.max_sites = 5});
    EXPECT_EQ(run_node(tracer, "a", 3).size(), 3U);
    {
      const auto running = tracer.enter("a loop");
      for (int i = 0; i < 2; ++i) (void)tracer.allocate(DType::f32, {1});
      for (int i = 0; i < 2; ++i)
        EXPECT_TRUE(tells(thrown_by([&] { (void)tracer.allocate(DType::f32, {1}); }),
                          Code::exhausted,
                          {"allocation 2 of node \"a loop\"", "more than 5 sites", "max_sites"}));
    }
    EXPECT_TRUE(tells(thrown_by([&] { tracer.mark_cut("a", 4'000'000'000U); }), Code::exhausted,
                      {"allocation 4000000000 of node \"a\""}));
    EXPECT_EQ(tracer.counters().sites, 5U);
    EXPECT_EQ(run_node(tracer, "a", 3).size(), 3U) << "sites that there are stay usable";
    for (const char* node : {"c", "d", "e"}) (void)tracer.enter(node);
    EXPECT_TRUE(tells(thrown_by([&] { (void)tracer.enter("f"); }), Code::exhausted,
                      {"node \"f\" would be number 6", "max_sites"}));
    (void)tracer.enter("e");
  });
}

TEST(TracingErrors, MemoryThatIsUsedUpNamesTheNode) {
  const auto config = tests::settings().with(Setting::arena_max, "8m");
  tests::run_on(1, config, [](World& world) {
    TracingAllocator tracer(world);
    const auto running = tracer.enter("large");
    EXPECT_TRUE(tells(thrown_by([&] { (void)tracer.allocate(DType::u8, {std::int64_t{1} << 59}); }),
                      Code::exhausted,
                      {"allocate", "node \"large\"", "than any machine addresses"}));
    const Tensor large = tracer.allocate(DType::u8, {std::int64_t{1} << 26});
    EXPECT_TRUE(
        tells(thrown_by([&] { (void)tracer.to_send(large); }), Code::exhausted, {"8388608"}));
    const TracingCounters counters = tracer.counters();
    EXPECT_EQ(counters.plain_allocations, 1U) << "what failed is not counted";
    EXPECT_EQ(counters.copies, 0U);
    EXPECT_EQ(counters.sends, 0U);
  });
  tests::run_on(1, config, [](World& world) {
    TracingAllocator tracer(world);
    (void)tracer.to_send(run_node(tracer, "large", 1, {1'000'000})[0]);
    tracer.next_step();
    EXPECT_TRUE(tells(thrown_by([&] { (void)run_node(tracer, "large", 1, {4'000'000}); }),
                      Code::exhausted, {"node \"large\"", "data arena"}))
        << "no plain memory in place of the arena's";
    EXPECT_EQ(run_node(tracer, "large", 1, {1'000'000}).size(), 1U);
  });
}

TEST(TracingErrors, OptionsAndTypesThatDoNotExist) {
  run_alone([](World& world) {
    EXPECT_TRUE(tells(thrown_by([&] { const TracingAllocator tracer(world, {.max_sites = 0}); }),
                      Code::bad_argument, {"0 is no number of sites"}));
    EXPECT_TRUE(tells(thrown_by([&] {
                        const TracingAllocator tracer(world, {.mode = static_cast<TracingMode>(3)});
                      }),
                      Code::bad_argument, {"no mode 3"}));
    TracingAllocator tracer(world);
    const auto running = tracer.enter("a");
    EXPECT_TRUE(tells(thrown_by([&] { (void)tracer.allocate(static_cast<DType>(99), {1}); }),
                      Code::bad_argument, {"element type 99"}));
    EXPECT_EQ(tracer.counters().sites, 0U);
  });
}

}  // namespace
}  // namespace weft::dataflow
