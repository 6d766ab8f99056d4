// The cost of traced tensors on edges by RDMA, over fake NICs.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/threads/tracing/edges.hpp"
#include "tests/threads/verbs/nics.hpp"

namespace weft::dataflow {
namespace {

void compare_by_rdma(bool is_traced) {
  for (const auto placement : {weft::Placement::fixed, weft::Placement::dynamic}) {
    tests::NicJob job;
    job.run(2, [&](World& world) {
      traced::expect_copies_by_put_or_tracer(world, placement, "verbs", is_traced);
    });
  }
}

TEST(TracedEdges, CopyNothingByRdmaFromTheSecondStepOn) { compare_by_rdma(true); }

TEST(PlainMemory, IsCopiedByEachPutByRdma) { compare_by_rdma(false); }

TEST(TracingModes, RegisterByRdmaAtEachAllocationOrNotAtAll) {
  for (const auto& [mode, each_step] :
       {std::pair(TracingMode::sites, 0U), std::pair(TracingMode::cut_edges, 1U),
        std::pair(TracingMode::off, 0U)}) {
    SCOPED_TRACE(name(mode));
    tests::NicJob job;
    std::vector<std::uint64_t> registered;  // before each of rank 1's puts
    job.run(2, [&](World& world) {
      TracingAllocator tracer(world, {.mode = mode});
      tracer.mark_cut("source", 0);
      const auto source = [&](const Tensor& made) {
        const auto calls = job.network.counts(1).calls;
        registered.push_back(calls[static_cast<std::size_t>(tests::VerbsCall::reg_mr)]);
        return tracer.to_send(made);
      };
      const auto counted = traced::run_edge(world, weft::Placement::fixed, source, tracer);
      if (world.rank() == 1) {
        EXPECT_EQ(counted.back().bytes_copied, 0U);
      }
    });
    // The arena may grow in step 2, which the third put is the first not to see.
    for (std::size_t step = 3; step < traced::kEdgeSteps; ++step)
      EXPECT_EQ(registered.at(step) - registered.at(step - 1), each_step) << "step " << step;
  }
}

}  // namespace
}  // namespace weft::dataflow
