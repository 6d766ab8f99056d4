// Processes with tensors on a GPU each that put them into slots on their neighbours' GPUs. Their
// driver is the stand-in, which judges each process as it ends.
// gpu_job GPUS WAY WORD: how many GPUs they see in turn, and the way of every edge, whose reason
// has that word.
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/ranks/checks.hpp"

namespace weft {
namespace {

void check_edges(World& world, tests::Checks& checks, const std::string& way,
                 const std::string& word) {
  for (const EdgeReport& edge : world.report().edges) {
    const std::string name = std::string(weft::name(edge.role)) + " " + edge.slot;
    checks.expect(edge.way == way && edge.reason.find(word) != std::string::npos,
                  name + " is " + edge.way + ": " + edge.reason);
    checks.expect((edge.counters.staged_bytes == 0) == (way == "mapped"), name + ": staged bytes");
    const bool copies = edge.role == Role::puts || way == "staged";
    checks.expect(edge.counters.device_copies == (copies ? edge.counters.transfers : 0),
                  name + ": copies");
  }
}

/// Each rank puts into a slot of the next one's, on that one's GPU.
void pass_on(World& world, tests::Checks& checks, const std::string& way, const std::string& word) {
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
  check_edges(world, checks, way, word);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;
  if (argc != 4) return 2;
  const int gpus = std::atoi(argv[1]);
  return tests::run_as_rank([&](World& world, tests::Checks& checks) {
    std::vector<float> values(1000, static_cast<float>(world.rank() + 1));
    std::vector<float> back(1000);
    const Tensor gpu = world.allocate(DType::f32, {1000}, Memory::gpu());
    checks.expect(gpu.memory() == Memory::gpu(world.rank() % gpus), "ranks take GPUs in turn");
    world.copy(Tensor::wrap(values.data(), DType::f32, {1000}), gpu);
    world.copy(gpu, Tensor::wrap(back.data(), DType::f32, {1000}));
    checks.expect(back == values, "the elements come back");
    pass_on(world, checks, argv[2], argv[3]);
  });
}
