// Processes with tensors on a GPU each that put them into slots on their neighbours' GPUs. Their
// driver is the stand-in, which judges each process as it ends.
// gpu_job GPUS WAY WORD: how many GPUs they see in turn, and the way of every edge, whose reason
// has that word.
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cuda/world/default_stream.hpp"
#include "tests/ranks/checks.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"
#include "weft/rendezvous.hpp"

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

/// Versions are in host memory: readers' GPUs copy from there within a host, whatever the way of
/// the puts.
void check_gets(World& world, tests::Checks& checks) {
  for (const EdgeReport& edge : world.report().edges) {
    if (edge.slot != "news" || edge.role != Role::views) continue;
    const bool is_mapped = edge.fabric == "shm";
    checks.expect(edge.way == (is_mapped ? "mapped" : "staged"),
                  "gets are " + edge.way + ": " + edge.reason);
    checks.expect((edge.counters.staged_bytes == 0) == is_mapped, "gets: staged bytes");
    checks.expect(edge.counters.device_copies == edge.counters.transfers, "gets: copies");
  }
}

/// The same by published versions, rendezvous, messages and plans, which the GPUs carry out where
/// they reach each other.
void pass_on_otherwise(World& world, tests::Checks& checks, const std::string& way) {
  constexpr std::int64_t kElements = 50'000;
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  const Shape shape{kElements};
  const Tensor gpu = world.allocate(DType::f32, shape, Memory::gpu());
  const Tensor into = world.allocate(DType::f32, shape, Memory::gpu());
  const auto set = [&](const Tensor& tensor, float value) {
    std::vector<float> values(kElements, value);
    world.copy(Tensor::wrap(values.data(), DType::f32, shape), tensor);
  };
  const auto expect = [&](const Tensor& tensor, float value, const char* what) {
    std::vector<float> values(kElements);
    world.copy(tensor, Tensor::wrap(values.data(), DType::f32, shape));
    checks.expect(tensor.memory().is_gpu() && values == std::vector<float>(kElements, value), what);
  };
  PublishedSlot news =
      world.expose_published({.name = "news", .shape = shape, .memory = Memory::gpu()});
  PublishedReader reader = world.attach_published(before, "news");
  Rendezvous exchange = Rendezvous::open(world, {.memory = Memory::gpu()});
  Messages messages(world);
  auto group = Collectives::open(world);
  Plan sum = group.plan(all_reduce(into, Reduction::sum));
  for (int step = 1; step <= 5; ++step) {
    const auto of = [&](int rank) { return static_cast<float>(1000 * step + rank); };
    set(gpu, of(world.rank()));
    MessageRequest receiving = messages.irecv(before, Tag(1), into);
    MessageRequest sending = messages.isend(next, 1, gpu);
    receiving.wait().value();
    sending.wait().value();
    expect(into, of(before), "a message comes to the GPU whole");
    exchange.send(next, "t", static_cast<std::uint64_t>(step), gpu).or_throw();
    expect(exchange.recv(before, "t", static_cast<std::uint64_t>(step)).value().tensor, of(before),
           "a tensor is received on the GPU whole");
    world.copy(gpu, news.next().value());
    news.publish().or_throw();
    reader.get(into).or_throw();
    expect(into, of(before), "a version comes to the GPU whole");
    sum.run().or_throw();
    float all = 0;
    for (int rank = 0; rank < world.size(); ++rank) all += of(rank);
    expect(into, all, "a plan gives the sum on the GPU");
    group.run(broadcast(into, step % world.size())).or_throw();
    expect(into, all, "a broadcast keeps it");
    set(gpu, of(world.rank()));
    group.run(reduce(gpu, into, Reduction::max, 0)).or_throw();
    if (world.rank() == 0) expect(into, of(world.size() - 1), "the root has the largest");
    const auto size = static_cast<std::int64_t>(world.size());
    const Shape part{kElements / size};
    const Tensor whole = into.part(0, {kElements / size * size});
    group.run(all_gather(gpu.part(0, part), whole)).or_throw();
    std::vector<float> gathered(static_cast<std::size_t>(whole.shape().elements()));
    world.copy(whole, Tensor::wrap(gathered.data(), DType::f32, whole.shape()));
    for (int rank = 0; rank < world.size(); ++rank)
      checks.expect(gathered[static_cast<std::size_t>(rank * (kElements / size))] == of(rank),
                    "the parts are gathered");
    group.run(reduce_scatter(whole, gpu.part(0, part), Reduction::min)).or_throw();
    world.copy(gpu.part(0, part), Tensor::wrap(gathered.data(), DType::f32, part));
    checks.expect(gathered[1] == of(world.rank()), "a rank has its part of the least");
  }
  checks.expect((group.staged_bytes() == 0) == (way == "mapped"), "bytes that calls have staged");
  check_gets(world, checks);
  exchange.serve().or_throw();
}

/// Plans on a stream, where the GPUs reach each other; else the thread waits.
void run_on_streams(World& world, tests::Checks& checks, const std::string& way) {
  constexpr std::int64_t kPart = 10'000;
  const auto size = static_cast<std::int64_t>(world.size());
  const Tensor sum = world.allocate(DType::f32, {kPart}, Memory::gpu());
  const Tensor all = world.allocate(DType::f32, {kPart * size}, Memory::gpu());
  const tests::DefaultStream stream(sum.memory());
  auto group = Collectives::open(world);
  Plan add = group.plan(all_reduce(sum, Reduction::sum));
  Plan gather = group.plan(all_gather(sum, all));
  std::vector<float> values(kPart, 1);
  world.copy(Tensor::wrap(values.data(), DType::f32, {kPart}), sum);
  float wanted = 1;
  for (Plan* plan : {&add, &gather}) {
    plan->start(tests::DefaultStream::get()).or_throw();
    checks.expect(stream.synchronize(), "the stream ends");
    checks.expect((plan->outcome() != nullptr) == (way == "mapped"), "streams run the plans");
  }
  wanted *= static_cast<float>(size);
  for (int step = 0; step < 5; ++step) {
    add.start(tests::DefaultStream::get()).or_throw();
    gather.start(tests::DefaultStream::get()).or_throw();
    wanted *= static_cast<float>(size);
  }
  checks.expect(stream.synchronize(), "the stream ends");
  group.run(barrier()).or_throw();
  values.resize(static_cast<std::size_t>(kPart * size));
  world.copy(all, Tensor::wrap(values.data(), DType::f32, all.shape()));
  checks.expect(values == std::vector<float>(values.size(), wanted), "all have all sums");
  checks.expect(way != "mapped" || (*add.outcome() == 0 && *gather.outcome() == 0), "all is well");
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
    pass_on_otherwise(world, checks, argv[2]);
    run_on_streams(world, checks, argv[2]);
  });
}
