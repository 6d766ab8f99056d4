// Processes with a tensor on a GPU each. Their driver is the stand-in, which judges each process as
// it ends.
#include <vector>

#include "tests/ranks/checks.hpp"

int main() {
  using namespace weft;
  return tests::run_as_rank([](World& world, tests::Checks& checks) {
    std::vector<float> values(1000, static_cast<float>(world.rank() + 1));
    std::vector<float> back(1000);
    const Tensor gpu = world.allocate(DType::f32, {1000}, Memory::gpu());
    checks.expect(gpu.memory() == Memory::gpu(world.rank() % 2), "ranks take GPUs in turn");
    world.copy(Tensor::wrap(values.data(), DType::f32, {1000}), gpu);
    world.copy(gpu, Tensor::wrap(back.data(), DType::f32, {1000}));
    checks.expect(back == values, "the elements come back");
  });
}
