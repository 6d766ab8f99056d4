// Steps of one edge from rank 1 to rank 0, for the tests of what a traced tensor costs there.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/threads/tracing/traced.hpp"

namespace weft::dataflow::traced {

inline constexpr std::uint64_t kEdgeSteps = 6;
inline constexpr std::int64_t kEdgeSize = 20'000;
inline constexpr std::uint64_t kEdgeBytes = kEdgeSize * sizeof(float);

/// Runs the steps; `source` gives the tensor that rank 1 puts. Returns what rank 1's end of the
/// edge has counted after each step.
inline std::vector<TransferCounters> run_edge(
    World& world, weft::Placement placement,
    const std::function<Tensor(const Tensor& made)>& source, TracingAllocator& tracer) {
  const SlotSpec spec{.name = "edge", .shape = {kEdgeSize}, .depth = 2, .placement = placement};
  std::vector<TransferCounters> counted;
  Slot slot;
  RemoteSlot remote;
  if (world.rank() == 0)
    slot = world.expose(spec);
  else
    remote = world.attach(0, spec);
  for (std::uint64_t step = 1; step <= kEdgeSteps; ++step) {
    if (world.rank() == 0) {
      const Arrival arrival = slot.wait().value();
      EXPECT_EQ(arrival.as<float>().front(), static_cast<float>(step));
      EXPECT_EQ(arrival.as<float>().back(), static_cast<float>(step));
      continue;
    }
    const Tensor made = run_node(tracer, "source", 1, {kEdgeSize})[0];
    std::ranges::fill(made.as<float>(), static_cast<float>(step));
    remote.put(source(made), Until::delivered).wait().or_throw();
    counted.push_back(tests::edge_counters(world, "edge", Role::puts));
    tracer.next_step();
  }
  world.leave().or_throw();
  return counted;
}

/// A put copies plain memory each time. No put copies what to_send() gave; the allocator copies in
/// the first step alone.
inline void expect_copies_by_put_or_tracer(World& world, weft::Placement placement,
                                           const std::string& fabric, bool is_traced) {
  TracingAllocator tracer(world);
  const auto counted = run_edge(
      world, placement, [&](const Tensor& made) { return is_traced ? tracer.to_send(made) : made; },
      tracer);
  if (world.rank() == 0) return;
  SCOPED_TRACE(fabric + (placement == weft::Placement::fixed ? ", fixed" : ", dynamic") +
               (is_traced ? ", traced" : ", plain"));
  for (std::uint64_t step = 1; step <= kEdgeSteps; ++step) {
    const TransferCounters& c = counted.at(step - 1);
    EXPECT_EQ(c.transfers, step);
    EXPECT_EQ(c.bytes_copied, is_traced ? 0 : step * kEdgeBytes);
    EXPECT_EQ(c.registrations, 0U) << "no put registers memory";
  }
  EXPECT_EQ(tracer.counters().copies, is_traced ? 1U : 0U);
  EXPECT_EQ(tracer.counters().registered_allocations, is_traced ? kEdgeSteps - 1 : 0U);
}

}  // namespace weft::dataflow::traced
