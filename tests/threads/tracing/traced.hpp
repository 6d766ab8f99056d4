// Common parts of the tests of TracingAllocator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string_view>
#include <vector>

#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"
#include "weft/tracing.hpp"

namespace weft::dataflow {

inline void PrintTo(TracingMode mode, std::ostream* out) { *out << name(mode); }

namespace traced {

/// Runs `body` in a job of one rank.
inline void run_alone(const std::function<void(World&)>& body) { tests::run_on(1, body); }

/// Whether the tensor lies in the arena of the world.
inline bool in_arena(World& world, const Tensor& tensor) {
  return tensor.arena() != nullptr && tensor.arena() == world.allocate(DType::u8, {1}).arena();
}

/// The tensors of one run of a node that allocates so often, each filled with its index.
inline std::vector<Tensor> run_node(TracingAllocator& tracer, std::string_view node,
                                    std::size_t allocations, const Shape& shape = {100}) {
  const auto running = tracer.enter(node);
  std::vector<Tensor> made;
  for (std::size_t i = 0; i < allocations; ++i) {
    made.push_back(tracer.allocate(DType::f32, shape));
    std::ranges::fill(made.back().as<float>(), static_cast<float>(i));
  }
  return made;
}

/// The number of copies since `before`.
inline std::uint64_t copies_since(const TracingAllocator& tracer, const TracingCounters& before) {
  return tracer.counters().copies - before.copies;
}

}  // namespace traced
}  // namespace weft::dataflow
