// gpu_peer_dies owner|writer: that rank of two is killed while the writer's GPU copies into the
// owner's. The other goes on, and nothing is written into its memory any more.
// gpu_peer_dies member MS: rank 1 is killed that long after it has begun an all_reduce that both
// ranks' GPUs carry out.
// gpu_peer_dies stream MS: the same while the ranks' streams run it.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/world/default_stream.hpp"
#include "tests/ranks/checks.hpp"
#include "weft/collective.hpp"

namespace weft {
namespace {

constexpr std::int64_t kElements = 100'000;
const SlotSpec kSpec{.name = "in", .shape = {kElements}, .depth = 2, .memory = Memory::gpu()};

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

Tensor filled(World& world, float value) {
  std::vector<float> values(kElements, value);
  const Tensor tensor = world.allocate(DType::f32, {kElements}, Memory::gpu());
  world.copy(Tensor::wrap(values.data(), DType::f32, {kElements}), tensor);
  return tensor;
}

bool holds(World& world, const Tensor& tensor, float value) {
  std::vector<float> values(kElements);
  world.copy(tensor, Tensor::wrap(values.data(), DType::f32, {kElements}));
  return values == std::vector<float>(kElements, value);
}

void own(World& world, tests::Checks& checks, bool dies) {
  {
    Slot slot = world.expose(kSpec);
    checks.expect(holds(world, slot.wait().value().tensor(), 1), "the first tensor arrives");
    if (dies) die();
    const Status end = slot.wait().status();
    checks.expect(end.code() == Code::peer_failed, "wait: " + end.text());
  }
  // The slot's memory serves others now.
  std::vector<Tensor> next;
  for (float value = 5; value < 9; ++value) next.push_back(filled(world, value));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (std::size_t i = 0; i < next.size(); ++i)
    checks.expect(holds(world, next[i], 5 + static_cast<float>(i)), "the memory is the owner's");
}

void write(World& world, tests::Checks& checks, bool dies) {
  RemoteSlot remote = world.attach(0, kSpec);
  for (const auto& edge : world.report().edges) checks.expect(edge.way == "mapped", edge.reason);
  const Tensor tensor = filled(world, 1);
  remote.put(tensor).wait().or_throw();
  Request request = remote.put(tensor);
  if (dies) die();
  Status end = request.wait();
  for (int i = 0; i < 100 && end.ok(); ++i) end = remote.put(tensor).wait();
  checks.expect(end.code() == Code::peer_failed, "put: " + end.text());
  checks.expect(holds(world, tensor, 1), "the GPU still works");
}

void combine(World& world, tests::Checks& checks, std::chrono::milliseconds lives, bool by_stream) {
  auto group = Collectives::open(world);
  const Tensor tensor = filled(world, 2);
  const tests::DefaultStream stream(tensor.memory());
  Plan plan = group.plan(all_reduce(tensor, Reduction::max));
  const auto run = [&] {
    if (!by_stream) return plan.run();
    Status status = plan.start(tests::DefaultStream::get());
    checks.expect(stream.synchronize(), "the stream ends");
    return status;
  };
  for (int i = 0; i < 3; ++i) run().or_throw();
  checks.expect(group.staged_bytes() == 0, "the GPUs carry the calls out");
  if (world.rank() == 1) {
    std::thread killer([lives] {
      std::this_thread::sleep_for(lives);
      die();
    });
    for (;;) run().or_throw();
  }
  const auto begin = std::chrono::steady_clock::now();
  Status end;
  for (int i = 0; i < 1000 && end.ok(); ++i) end = run();
  checks.expect(end.code() == Code::peer_failed && end.detail().peer == 1, "plan: " + end.text());
  checks.expect(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10),
                "the survivor ends in time");
  if (by_stream) checks.expect(*plan.outcome() != 0, "the GPU is told");
  group.settle().or_throw();
  checks.expect(holds(world, tensor, 2), "the GPU still works");
  const Tensor next = filled(world, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  checks.expect(holds(world, next, 3), "the memory is the survivor's");
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;
  if (argc < 2) return 2;
  const std::string victim = argv[1];
  return tests::run_as_survivor([&](World& world, tests::Checks& checks) {
    if (victim == "member" || victim == "stream")
      combine(world, checks, std::chrono::milliseconds(std::stoi(argv[2])), victim == "stream");
    else if (world.rank() == 0)
      own(world, checks, victim == "owner");
    else
      write(world, checks, victim == "writer");
  });
}
