// Calls that don't take GPU tensors yet refuse them, name the GPU and never touch their memory;
// what they refused leaves nothing behind. Puts take them, and refuse these, which lie nowhere.
#include <gtest/gtest.h>

#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/gpu_memory.hpp"
#include "tests/support/ranks.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"
#include "weft/published_slot.hpp"
#include "weft/rendezvous.hpp"
#include "weft/signal.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

/// Runs `body` as the only rank, with a tensor f32[16] on a GPU.
void run_with_gpu_tensor(const std::function<void(World&, const Tensor&)>& body) {
  const GpuMemory memory;
  run_on(1, [&](World& world) { body(world, memory.tensor({16})); });
}

TEST(GpuTensors, KnowTheirGpuThroughPartsAndSlices) {
  const GpuMemory memory;
  const Tensor tensor = memory.tensor({4, 8});
  for (const Tensor& part : {tensor, tensor.part(8, {8}), tensor.slice(1, 0, 2), Tensor(tensor)}) {
    EXPECT_EQ(part.memory(), Memory::gpu(3));
    EXPECT_TRUE(tells(thrown_by([&] { (void)part.as<float>(); }), Code::bad_argument, {"as"}));
  }
  EXPECT_TRUE(tells(thrown_by([&] { (void)tensor.as<float>(); }), Code::bad_argument,
                    {"f32[4, 8]", "GPU 3", "World::copy"}));
  EXPECT_TRUE(
      tells(thrown_by([&] { (void)tensor.as<std::uint8_t>(); }), Code::bad_argument, {"GPU 3"}));
  Tensor moved = tensor;
  moved = memory.tensor({2});
  EXPECT_EQ(moved.memory(), Memory::gpu(3));
  float host = 0;
  moved = Tensor::wrap(&host, DType::f32, {1});
  EXPECT_TRUE(moved.memory().is_host());
  EXPECT_EQ(moved.as<float>().size(), 1U);
}

TEST(GpuTensors, MemorySaysWhereItIs) {
  EXPECT_EQ(Memory().text(), "host memory");
  EXPECT_EQ(Memory::host(), Memory());
  EXPECT_EQ(Memory::gpu(2).text(), "GPU 2");
  EXPECT_EQ(Memory::gpu(2).ordinal(), 2);
  EXPECT_EQ(Memory::gpu().text(), "this rank's GPU");
  EXPECT_EQ(Memory::gpu().ordinal(), -1);
  EXPECT_TRUE(Memory::gpu().is_gpu() && Memory::gpu().is_own_gpu() && !Memory::gpu(0).is_own_gpu());
  for (const int none : {-1, 40000})
    EXPECT_TRUE(tells(thrown_by([&] { (void)Memory::gpu(none); }), Code::bad_argument,
                      {"no GPU " + std::to_string(none)}));
  float host = 0;
  EXPECT_TRUE(tells(thrown_by([&] { (void)Tensor::wrap(&host, DType::f32, {1}, Memory::gpu()); }),
                    Code::bad_argument, {"name the GPU"}));
}

TEST(GpuTensors, AreNotPut) {
  run_with_gpu_tensor([](World& world, const Tensor& tensor) {
    for (const auto placement : {Placement::fixed, Placement::dynamic}) {
      const SlotSpec spec{.name = placement == Placement::fixed ? "fixed" : "dynamic",
                          .shape = {16},
                          .depth = 2,
                          .placement = placement};
      auto slot = world.expose(spec);
      auto remote = world.attach(0, spec);
      const Tensor host = world.allocate(DType::f32, {8});
      for (const Until until : {Until::reusable, Until::delivered}) {
        // There is no driver, or it knows of no such memory.
        const Status status = remote.put(tensor, until).wait();
        EXPECT_TRUE(status.code() == Code::system || status.code() == Code::bad_argument)
            << status.text();
      }
      if (placement == Placement::fixed) {
        EXPECT_FALSE(remote.put(std::vector{host, tensor.part(0, {8})}).wait().ok());
      }
      EXPECT_EQ(slot.wait(Deadline::after(milliseconds(20))).code(), Code::timeout);
      auto request = remote.put(world.allocate(DType::f32, {16}));
      EXPECT_EQ(slot.wait().value().sequence(), 1U);
      EXPECT_TRUE(request.wait().ok());
    }
  });
}

TEST(GpuTensors, HoldNoSlot) {
  run_with_gpu_tensor([](World& world, const Tensor& tensor) {
    const SlotSpec spec{.name = "in", .shape = {16}};
    EXPECT_TRUE(tells(thrown_by([&] { (void)world.expose(spec, tensor); }), Code::bad_argument,
                      {"in", "GPU 3", "the caller's own"}));
    const SlotSpec dynamic{.name = "dynamic", .shape = {1}, .placement = Placement::dynamic};
    auto slot = world.expose(dynamic);
    auto remote = world.attach(0, dynamic);
    slot.allocate_with([&](DType, const Shape&) { return tensor; });
    auto request = remote.put(world.allocate(DType::f32, {16}));
    const auto arrival = slot.wait(Deadline::after(milliseconds(500)));
    EXPECT_FALSE(arrival.ok());
  });
}

TEST(GpuTensors, GetNoVersion) {
  run_with_gpu_tensor([](World& world, const Tensor& tensor) {
    const PublishedSpec spec{.name = "news", .shape = {16}};
    auto slot = world.expose_published(spec);
    auto reader = world.attach_published(0, spec);
    fill(slot.next().value(), 3);
    slot.publish().or_throw();
    EXPECT_FALSE(reader.get(tensor).ok());
    EXPECT_TRUE(reader.ready()) << "the version was not taken";
  });
}

TEST(GpuTensors, AreNoMessages) {
  run_with_gpu_tensor([](World& world, const Tensor& tensor) {
    Messages messages(world);
    const Tensor host = world.allocate(DType::f32, {16});
    EXPECT_FALSE(messages.send(0, 1, tensor).ok());
    EXPECT_FALSE(messages.isend(0, 1, tensor).wait().ok());
    EXPECT_FALSE(messages.iprobe(0, Tag(1)).has_value());
    auto kept = messages.isend(0, 1, host);
    EXPECT_FALSE(messages.recv(0, Tag(1), tensor).ok());
    EXPECT_FALSE(messages.irecv(0, Tag(1), tensor).wait().ok());
    EXPECT_TRUE(messages.recv(0, Tag(1), host).ok()) << "the message was not taken";
    EXPECT_TRUE(kept.wait().ok());
    EXPECT_FALSE(messages.sendrecv(0, 2, host, 0, Tag(2), tensor).ok());
  });
}

TEST(GpuTensors, AreNotExchanged) {
  run_with_gpu_tensor([](World& world, const Tensor& tensor) {
    auto exchange = Rendezvous::open(world);
    const Tensor host = world.allocate(DType::f32, {16});
    EXPECT_FALSE(exchange.send(0, "t", 1, tensor).ok());
    EXPECT_TRUE(exchange.send(0, "t", 1, host).ok()) << "it was not offered";
    EXPECT_TRUE(exchange.recv(0, "t", 1).ok());
    const RendezvousSpec there{.name = "b", .memory = Memory::gpu(3)};
    EXPECT_NE(thrown_by([&] { (void)Rendezvous::open(world, there); }).code, Code::ok);
    const PublishedSpec news{.name = "news", .shape = {16}, .memory = Memory::gpu(3)};
    EXPECT_NE(thrown_by([&] { (void)world.expose_published(news); }).code, Code::ok);
  });
}

TEST(GpuTensors, AreNotCombined) {
  run_with_gpu_tensor([](World& world, const Tensor& tensor) {
    auto group = Collectives::open(world);
    const Tensor host = world.allocate(DType::f32, {16});
    const ReduceOp sum = Reduction::sum;
    const std::vector<Call> calls{broadcast(tensor, 0),
                                  reduce(tensor, host, sum, 0),
                                  reduce(host, tensor, sum, 0),
                                  all_reduce(tensor, sum),
                                  all_reduce(host, tensor, sum),
                                  reduce_scatter(tensor, host, sum),
                                  reduce_scatter(host, tensor, sum),
                                  all_gather(tensor, host),
                                  all_gather(host, tensor),
                                  gather(tensor, host, 0),
                                  gather(host, tensor, 0),
                                  scatter(tensor, host, 0),
                                  scatter(host, tensor, 0),
                                  all_to_all(tensor, host),
                                  all_to_all(host, tensor),
                                  scan(tensor, host, sum),
                                  scan(host, tensor, sum)};
    for (const Call& call : calls) {
      EXPECT_FALSE(group.run(call).ok());
      EXPECT_NE(thrown_by([&] { (void)group.plan(call); }).code, Code::ok);
    }
    EXPECT_TRUE(group.run(all_reduce(host, sum)).ok());
  });
}

}  // namespace
}  // namespace weft::tests
