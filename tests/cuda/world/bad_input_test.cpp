// Bad input of GPUs, in the plain calls that read a GPU's tensor: one typed error each, which names
// the GPU and the address, and after which all goes on.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/world/gpu_rank.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

constexpr std::int64_t kCount = 100;
constexpr std::size_t kCountBytes = 400;

std::string text_of(DevicePointer pointer) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(pointer));
  return text.data();
}

/// A rank alone, with an end of each kind.
struct Everything {
  explicit Everything(World& rank)
      : world(rank),
        messages(world),
        exchange(Rendezvous::open(world)),
        group(Collectives::open(world)),
        slot(world.expose(spec)),
        remote(world.attach(0, spec)) {}

  /// Each call that takes `tensor` as a source.
  std::vector<std::pair<const char*, std::function<Status()>>> calls(const Tensor& tensor) {
    const auto thrown = [](const std::function<void()>& call) -> Status {
      try {
        call();
        return {};
      } catch (const Error& error) {
        return error.status();
      }
    };
    return {{"copy", [=, this] { return thrown([&] { world.copy(tensor, host); }); }},
            {"put", [=, this] { return remote.put(tensor).wait(); }},
            {"send", [=, this] { return messages.send(0, 1, tensor); }},
            {"rendezvous", [=, this] { return exchange.send(0, "t", 1, tensor); }},
            {"collective", [=, this] { return group.run(all_reduce(tensor, Reduction::sum)); }},
            {"plan", [=, this] {
               return thrown([&] { (void)group.plan(all_reduce(tensor, Reduction::sum)); });
             }}};
  }

  const SlotSpec spec{.name = "in", .shape = {kCount}, .memory = Memory::gpu(0)};
  World& world;
  Messages messages;
  Rendezvous exchange;
  Collectives group;
  Slot slot;
  RemoteSlot remote;
  const Tensor host = world.allocate(DType::f32, {kCount});
};

class BadGpuInput : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's GPUs";
  }

  static Tensor wrapped(DevicePointer pointer, Memory memory) {
    return Tensor::wrap(reinterpret_cast<void*>(pointer), DType::f32, {kCount}, memory);
  }
  /// Every call refuses the tensor, with these words and its address, and then takes a good one.
  static void expect_refused(Everything& all, const Tensor& bad,
                             const std::vector<const char*>& words) {
    const std::string address = text_of(weft::tests::address(bad.data()));
    const Tensor good = all.world.allocate(DType::f32, {kCount}, Memory::gpu(0));
    for (const auto& [name, call] : all.calls(bad)) {
      const Status status = call();
      EXPECT_EQ(status.code(), Code::bad_argument) << name << ": " << status.text();
      for (const char* word : words)
        EXPECT_NE(status.text().find(word), std::string::npos) << name << ": " << status.text();
      EXPECT_NE(status.text().find(address), std::string::npos)
          << name << " does not name " << address << ": " << status.text();
    }
    all.remote.put(good).wait().or_throw();
    EXPECT_TRUE(all.slot.wait().ok());
    EXPECT_TRUE(all.group.run(all_reduce(good, Reduction::sum)).ok());
  }
};

TEST_F(BadGpuInput, APointerOfAnotherProcessIsNamed) {
  run_on(1, [&](World& world) {
    Everything all(world);
    // As an address of another process looks here: the driver knows nothing of it.
    void* const elsewhere =
        ::mmap(nullptr, kCountBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(elsewhere, MAP_FAILED);
    expect_refused(all, wrapped(address(elsewhere), Memory::gpu(0)),
                   {"is no memory of GPU 0", "another process has it"});
    ASSERT_EQ(::munmap(elsewhere, kCountBytes), 0);
  });
}

TEST_F(BadGpuInput, FreedMemoryIsNamed) {
  run_on(1, [&](World& world) {
    Everything all(world);
    DevicePointer pointer = 0;
    {
      const OwnContext own(driver());
      ASSERT_OK(driver().allocate(&pointer, kCountBytes));
      ASSERT_OK(driver().free(pointer));
    }
    expect_refused(all, wrapped(pointer, Memory::gpu(0)), {"is no memory of GPU 0", "freed"});
  });
}

TEST_F(BadGpuInput, MemoryOfAnotherGpuIsNamed) {
  run_on(1, [&](World& world) {
    Everything all(world);
    const Tensor second = world.allocate(DType::f32, {kCount}, Memory::gpu(1));
    expect_refused(all, wrapped(address(second.data()), Memory::gpu(0)),
                   {"lies on GPU 1, not on GPU 0"});
  });
}

TEST_F(BadGpuInput, MemoryThatIsSaidToBeTheHostsIsNamed) {
  run_on(1, [&](World& world) {
    Everything all(world);
    const Tensor gpu = world.allocate(DType::f32, {kCount}, Memory::gpu(0));
    expect_refused(all, wrapped(address(gpu.data()), Memory()), {"GPU 0", "given as host memory"});
  });
}

TEST_F(BadGpuInput, ASlotMadeInMidCaptureSpoilsNoGraphAndWorks) {
  run_on(1, [&](World& world) {
    const Tensor from = world.allocate(DType::f32, {kCount}, Memory::gpu(0));
    const Tensor to = world.allocate(DType::f32, {kCount}, Memory::gpu(0));
    for (const CaptureMode mode : {CaptureMode::thread_local_, CaptureMode::global}) {
      const OwnContext own(driver());
      StreamHandle stream = nullptr;
      Graph graph = nullptr;
      ASSERT_OK(driver().create_stream(&stream, kStreamNonBlocking));
      ASSERT_OK(driver().begin_capture(stream, mode));
      world.copy(from, to, Stream::cuda(stream));
      {
        const SlotSpec spec{.name = "made", .shape = {kCount}, .memory = Memory::gpu(0)};
        Slot slot = world.expose(spec);
        RemoteSlot remote = world.attach(0, spec);
        remote.put(from).wait().or_throw();
        EXPECT_TRUE(slot.wait().ok());
      }
      ASSERT_OK(driver().end_capture(stream, &graph)) << "weft has spoiled it";
      ASSERT_OK(driver().destroy_graph(graph));
      ASSERT_OK(driver().destroy_stream(stream));
    }
  });
}

TEST_F(BadGpuInput, AFunctionThatCombinesIsGivenHostMemory) {
  const ReduceFunction largest = [](std::byte* into, const std::byte* from, std::int64_t count,
                                    DType) {
    auto* const a = reinterpret_cast<float*>(into);
    const auto* const b = reinterpret_cast<const float*>(from);
    for (std::int64_t i = 0; i < count; ++i) a[i] = std::max(a[i], b[i]);
  };
  run_on(2, [&](World& world) {
    auto group = Collectives::open(world);
    auto values = counted(kCount, static_cast<float>(world.rank()));
    const Tensor gpu = world.allocate(DType::f32, {kCount}, Memory::gpu(0));
    world.copy(Tensor::wrap(values.data(), DType::f32, {kCount}), gpu);
    // It is the processor's, which faults on a GPU's memory.
    group.run(all_reduce(gpu, ReduceOp(largest))).or_throw();
    EXPECT_EQ(group.staged_bytes(), 2 * kCountBytes);
    EXPECT_EQ(elements_of(world, gpu), counted(kCount, 1));
    group.run(barrier()).or_throw();
  });
}

}  // namespace
}  // namespace weft::tests
