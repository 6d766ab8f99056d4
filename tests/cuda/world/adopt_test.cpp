// The application's own memory on a GPU, adopted or wrapped as what it is not.
#include "tests/cuda/world/gpu_rank.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

/// Memory of cuMemAlloc on GPU 0, which is what cudaMalloc gives.
class OwnMemory {
 public:
  OwnMemory(const Driver& driver, std::size_t bytes) : driver_(driver), own_(driver) {
    EXPECT_OK(driver_.allocate(&pointer_, bytes));
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() { EXPECT_OK(driver_.free(pointer_)); }

  void* data() const { return reinterpret_cast<void*>(pointer_); }

 private:
  const Driver& driver_;
  const OwnContext own_;
  DevicePointer pointer_ = 0;
};

class Adopt : public OnGpus {};

TEST_F(Adopt, FindsOutWhatAPointerIs) {
  const OwnMemory memory(driver(), 4000);
  run_on(1, [&](World& world) {
    bool is_unused = false;
    {
      const Tensor gpu = world.adopt(memory.data(), DType::f32, {1000}, [&] { is_unused = true; });
      EXPECT_EQ(gpu.memory(), Memory::gpu(0));
      EXPECT_EQ(gpu.data(), memory.data());
      auto values = counted(1000, 7);
      world.copy(Tensor::wrap(values.data(), DType::f32, {1000}), gpu);
      EXPECT_EQ(elements_of(world, gpu), values);
      EXPECT_EQ(elements_of(world, gpu.part(10, {5})), counted(5, 17));
      EXPECT_FALSE(is_unused);
    }
    EXPECT_TRUE(is_unused);
    EXPECT_TRUE(world.adopt(std::make_shared<float>(), DType::f32, {1}).memory().is_host());
  });
}

TEST_F(Adopt, GivesTensorsThatAllStagedWaysTake) {
  const OwnMemory memory(driver(), 400);
  run_on(1, [&](World& world) {
    const Tensor gpu = world.adopt(memory.data(), DType::f32, {100}, [] {});
    auto values = counted(100, 7);
    world.copy(Tensor::wrap(values.data(), DType::f32, {100}), gpu);
    const Tensor host = world.allocate(DType::f32, {100});
    const SlotSpec spec{.name = "in", .shape = {100}};
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    remote.put(gpu).wait().or_throw();
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), values);
    Messages messages(world);
    messages.send(0, 1, gpu).or_throw();
    messages.recv(0, Tag(1), host).value();
    EXPECT_EQ(elements_of(world, host), values);
    MessageRequest request = messages.irecv(0, Tag(1), gpu);
    messages.send(0, 1, host).or_throw();
    request.wait().value();
    Rendezvous exchange = Rendezvous::open(world);
    exchange.send(0, "t", 1, gpu).or_throw();
    EXPECT_EQ(elements_of(world, exchange.recv(0, "t", 1).value().tensor), values);
    auto group = Collectives::open(world);
    Plan plan = group.plan(all_reduce(gpu, host, Reduction::sum));
    plan.run().or_throw();
    EXPECT_EQ(elements_of(world, host), values);
    // Only memory of weft's own holds a slot.
    EXPECT_TRUE(tells(thrown_by([&] { (void)world.expose({.name = "b", .shape = {100}}, gpu); }),
                      Code::bad_argument, {"GPU 0", "World::allocate"}));
  });
}

TEST_F(Adopt, KeepsTheMemoryUntilACopyHasEnded) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  control()->restart({.delay = std::chrono::milliseconds(40)});
  const OwnMemory memory(driver(), 400);
  run_on(1, [&](World& world) {
    std::atomic<bool> is_unused{false};
    const Tensor host = world.allocate(DType::f32, {100});  // the late copy writes it
    const Tensor other = world.allocate(DType::f32, {8});
    {
      const Tensor gpu = world.adopt(memory.data(), DType::f32, {100}, [&] { is_unused = true; });
      EXPECT_TRUE(tells(thrown_by([&] {
                          world.copy(gpu, host, {}, Deadline::after(std::chrono::nanoseconds(1)));
                        }),
                        Code::timeout, {"GPU 0"}));
    }
    EXPECT_FALSE(is_unused);
    EXPECT_TRUE(soon([&] {
      world.copy(other, other);
      return is_unused.load();
    }));
  });
}

TEST_F(Adopt, RefusesWhatEndsBehindItsAllocation) {
  const OwnMemory memory(driver(), 400);
  run_on(1, [&](World& world) {
    bool is_unused = false;
    const auto adopt = [&](std::int64_t elements) {
      return thrown_by([&] {
        (void)world.adopt(memory.data(), DType::f32, {elements}, [&] { is_unused = true; });
      });
    };
    EXPECT_TRUE(tells(adopt(std::int64_t{1} << 30), Code::bad_argument, {"ends behind"}));
    EXPECT_FALSE(is_unused) << "the memory stayed the caller's";
    EXPECT_EQ(adopt(100).code, Code::ok);
    EXPECT_TRUE(is_unused);
  });
}

TEST_F(Adopt, NamesTheGpuOfMemoryThatWasWrappedAsTheHosts) {
  const OwnMemory memory(driver(), 400'000);
  run_on(1, [&](World& world) {
    // A rank that uses GPUs looks.
    const Tensor there = world.allocate(DType::f32, {1}, Memory::gpu(0));
    const Tensor host = world.allocate(DType::f32, {100'000});
    Messages messages(world);
    auto group = Collectives::open(world);
    Rendezvous exchange = Rendezvous::open(world);
    PublishedSlot published = world.expose_published({.name = "news", .shape = {100'000}});
    PublishedReader reader = world.attach_published(0, "news");
    (void)published.next().value();
    published.publish().or_throw();
    const SlotSpec spec{.name = "in", .shape = {100'000}};
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    const auto named = [](const Status& status) {
      return tells(status, Code::bad_argument, {"GPU 0", "given as host memory"});
    };
    const Tensor wrong = Tensor::wrap(memory.data(), DType::f32, {100'000});
    EXPECT_TRUE(named(messages.send(0, 1, wrong)));
    EXPECT_TRUE(named(messages.send(0, 1, wrong.part(0, {10}))));
    auto kept = messages.isend(0, 1, host.part(0, {10}));
    EXPECT_TRUE(named(messages.recv(0, Tag(1), wrong).status()));
    EXPECT_TRUE(named(messages.irecv(0, Tag(1), wrong).wait().status()));
    EXPECT_TRUE(messages.recv(0, Tag(1), host).ok()) << "the message was not taken";
    EXPECT_TRUE(kept.wait().ok());
    EXPECT_TRUE(named(group.run(all_reduce(wrong, Reduction::sum))));
    EXPECT_TRUE(named(group.run(all_reduce(host, wrong, Reduction::sum))));
    EXPECT_TRUE(named(exchange.send(0, "t", 1, wrong)));
    EXPECT_TRUE(named(reader.get(wrong)));
    EXPECT_TRUE(reader.ready()) << "the version was not taken";
    EXPECT_TRUE(named(remote.put(wrong).wait()));
    EXPECT_TRUE(
        named(remote.put(std::vector{host.part(0, {50'000}), wrong.part(0, {50'000})}).wait()));
    EXPECT_EQ(slot.wait(Deadline::after(std::chrono::milliseconds(20))).code(), Code::timeout);
  });
}

}  // namespace
}  // namespace weft::tests
