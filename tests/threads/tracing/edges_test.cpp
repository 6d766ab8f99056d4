// The cost of traced tensors on edges by shared memory and TCP.
#include <gtest/gtest.h>

#include "tests/threads/tracing/edges.hpp"

namespace weft::dataflow {
namespace {

void compare(const char* fabric, bool is_traced) {
  const Config config = tests::settings().with(Setting::fabric, fabric);
  for (const auto placement : {weft::Placement::fixed, weft::Placement::dynamic})
    tests::run_on(2, config, [&](World& world) {
      traced::expect_copies_by_put_or_tracer(world, placement, fabric, is_traced);
    });
}

TEST(TracedEdges, CopyNothingFromTheSecondStepOn) {
  for (const char* fabric : {"shm", "tcp"}) compare(fabric, true);
}

TEST(PlainMemory, IsCopiedByEachPut) {
  for (const char* fabric : {"shm", "tcp"}) compare(fabric, false);
}

}  // namespace
}  // namespace weft::dataflow
