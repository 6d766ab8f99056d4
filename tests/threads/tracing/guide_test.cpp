// docs/dataflow.md: the code of "How a site is traced" compiles, and runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/threads/tracing/traced.hpp"
#include "tests/unit/dataflow/guide.hpp"

namespace weft::dataflow {
namespace {

constexpr int kGuideSteps = 4;

void scale_in_place(const Tensor& tensor) {
  for (float& value : tensor.as<float>()) value *= 2;
}

void train_by_guide(World& world, RemoteSlot& remote, int steps) {
  // clang-format off
  TracingAllocator tracer(world);
  for (int step = 0; step < steps; ++step) {
    Tensor gradient;
    {
      auto running = tracer.enter("backward");         // now node "backward" runs on this thread
      gradient = tracer.allocate(DType::f32, {1000});  // its allocation 0
    }
    std::ranges::fill(gradient.as<float>(), static_cast<float>(step));
    scale_in_place(gradient);  // allocates nothing: the site stays that of "backward"
    Request sent = remote.put(tracer.to_send(gradient));
    // ...
    sent.wait().or_throw();
    EXPECT_EQ(tracer.counters().copies, 1U);
    tracer.next_step();  // step 1 copied; from now on to_send() gives the tensor itself
  }
  // clang-format on
}

TEST(TracingGuide, ShowsCodeThatRuns) {
  tests::run_owner_and_writer(
      {.name = "gradient", .shape = {1000}},
      [](World&, Slot& slot) {
        for (int step = 0; step < kGuideSteps; ++step)
          EXPECT_EQ(slot.wait().value().as<float>()[999], 2.0F * static_cast<float>(step));
      },
      [](World& world, RemoteSlot& remote) { train_by_guide(world, remote, kGuideSteps); });
  const std::string code = guide::file("tests/threads/tracing/guide_test.cpp");
  const auto block = guide::block_after("## How a site is traced");
  EXPECT_GT(block.size(), 8U);
  for (const std::string& line : block) EXPECT_NE(code.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace weft::dataflow
