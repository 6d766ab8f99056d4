// The memory in which both ends of a body's tensors lie, and access to tensors that may lie on a
// GPU.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "weft/published_slot.hpp"
#include "weft/slot.hpp"
#include "weft/world.hpp"

namespace weft::conformance {

/// Chosen by the runner, the same on every rank.
struct Ends {
  /// Slots and published slots, tensors that are received, and results of collectives.
  Memory owner = Memory::host();
  /// Tensors that are put or sent, those that versions are got into, and inputs of collectives.
  Memory other = Memory::host();
};

/// A tensor where its owner's slots lie.
Tensor allocate_own(World& world, DType dtype, const Shape& shape);
/// A tensor where the ranks that put, send and get have theirs.
Tensor allocate_source(World& world, DType dtype, const Shape& shape);

/// The same slot, in the owner's memory.
SlotSpec owned(SlotSpec spec);
PublishedSpec owned(PublishedSpec spec);

/// The dense tensor's elements in host memory: the tensor itself, or a copy of it.
Tensor on_host(World& world, const Tensor& tensor);
/// The elements of a dense tensor, in host memory. Unlike Tensor::as, for tensors on GPUs too.
template <typename T>
std::vector<T> values_of(World& world, const Tensor& tensor) {
  const Tensor here = on_host(world, tensor);
  std::vector<T> values(here.bytes() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), here.data(), here.bytes());
  return values;
}
/// Writes all elements of a dense tensor.
template <typename T>
void set_values(World& world, const Tensor& tensor, std::vector<T> values) {
  world.copy(Tensor::wrap(values.data(), tensor.dtype(), tensor.shape()), tensor);
}

/// Test patterns (tests/pattern.hpp) in tensors that may lie on a GPU.
void fill(World& world, const Tensor& tensor, std::uint64_t pattern);
bool holds(World& world, const Tensor& tensor, std::uint64_t pattern);

}  // namespace weft::conformance
