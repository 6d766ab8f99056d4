// The cost of traced tensors on edges by RDMA, over fake NICs.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::dataflow
