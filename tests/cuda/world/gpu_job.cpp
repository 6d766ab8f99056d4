// Processes with tensors on a GPU each that put them into slots on their neighbours' GPUs. Their
// driver is the stand-in, which judges each process as it ends.
#include <vector>

#include "tests/ranks/checks.hpp"

namespace weft {
namespace {

/// Each rank puts into a slot of the next one's, on that one's GPU.
void pass_on(World& world, tests::Checks& checks) {
  constexpr std::int64_t kElements = 50'000;
  const SlotSpec spec{.name = "in", .shape = {kElements}, .depth = 2, .memory = Memory::gpu()};
  Slot slot = world.expose(spec);
  RemoteSlot remote = world.attach((world.rank() + 1) % world.size(), spec);
  const int before = (world.rank() + world.size() - 1) % world.size();
  const Tensor gpu = world.allocate(DType::f32, {kElements}, Memory::gpu());
  for (int step = 1; step <= 10; ++step) {
    std::vector<float> values(kElements, static_cast<float>(1000 * step + world.rank()));
    world.copy(Tensor::wrap(values.data(), DType::f32, {kElements}), gpu);
    Request request = remote.put(gpu);
    const Arrival arrival = slot.wait().value();
    world.copy(arrival.tensor(), Tensor::wrap(values.data(), DType::f32, {kElements}));
    const std::vector<float> wanted(kElements, static_cast<float>(1000 * step + before));
    checks.expect(values == wanted, "tensor " + std::to_string(step) + " arrives whole");
    request.wait().or_throw();
  }
}

}  // namespace
}  // namespace weft

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
    pass_on(world, checks);
  });
}
