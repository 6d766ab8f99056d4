#include "tests/conformance/ends.hpp"

#include "tests/conformance/settings.hpp"
#include "tests/pattern.hpp"

namespace weft::conformance {

Tensor allocate_own(World& world, DType dtype, const Shape& shape) {
  return world.allocate(dtype, shape, settings().ends.owner);
}

Tensor allocate_source(World& world, DType dtype, const Shape& shape) {
  return world.allocate(dtype, shape, settings().ends.other);
}

SlotSpec owned(SlotSpec spec) {
  spec.memory = settings().ends.owner;
  return spec;
}

PublishedSpec owned(PublishedSpec spec) {
  spec.memory = settings().ends.owner;
  return spec;
}

Tensor on_host(World& world, const Tensor& tensor) {
  if (tensor.memory().is_host()) return tensor;
  const Tensor here = world.allocate(tensor.dtype(), tensor.shape());
  world.copy(tensor, here);
  return here;
}

void fill(World& world, const Tensor& tensor, std::uint64_t pattern) {
  if (tensor.memory().is_host()) return tests::fill(tensor, pattern);
  const Tensor here = world.allocate(tensor.dtype(), tensor.shape());
  tests::fill(here, pattern);
  world.copy(here, tensor);
}

bool holds(World& world, const Tensor& tensor, std::uint64_t pattern) {
  return tests::holds(on_host(world, tensor), pattern);
}

}  // namespace weft::conformance
