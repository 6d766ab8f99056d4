// Puts into slots of fixed shape, where each end lies in host memory or on a GPU, over every
// fabric.
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {
namespace {

struct Ends {
  Memory owner;
  Memory writer;
};

std::string name_of(const Ends& ends) {
  return std::string(ends.writer.is_gpu() ? "gpu" : "host") + "_to_" +
         (ends.owner.is_gpu() ? "gpu" : "host");
}

void PrintTo(const Ends& ends, std::ostream* out) { *out << name_of(ends); }

class GpuPuts : public OnGpus, public testing::WithParamInterface<std::tuple<Over, Ends>> {
 protected:
  stand_in::Options options() const override { return options_for(fabric()); }
  static Over fabric() { return std::get<0>(GetParam()); }
  static Ends ends() { return std::get<1>(GetParam()); }

  static SlotSpec spec(std::int64_t elements, std::uint32_t depth) {
    return {.name = "in", .shape = {elements}, .depth = depth, .memory = ends().owner};
  }
  /// The tensor with number `sequence`.
  static std::vector<float> values(std::int64_t elements, std::uint64_t sequence) {
    return counted(static_cast<std::size_t>(elements), static_cast<float>(1000 * sequence));
  }

  /// Puts `count` tensors one by one; each source is overwritten once its request has ended.
  static void exchange(World& world, std::int64_t elements, std::uint32_t depth,
                       std::uint64_t count, Until until) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec(elements, depth));
      EXPECT_EQ(slot.spec().memory.is_gpu(), ends().owner.is_gpu());
      for (std::uint64_t sequence = 1; sequence <= count; ++sequence) {
        const Arrival arrival = slot.wait().value();
        EXPECT_EQ(arrival.sequence(), sequence);
        EXPECT_EQ(arrival.tensor().memory(), slot.spec().memory);
        EXPECT_EQ(seen_by_application(world, arrival.tensor()), values(elements, sequence));
      }
      expect_costs(world, Role::receives, ends().owner, elements, count);
    } else {
      RemoteSlot remote = world.attach(0, spec(elements, depth));
      const Tensor from = tensor_of(world, ends().writer, values(elements, 0));
      for (std::uint64_t sequence = 1; sequence <= count; ++sequence) {
        auto next = values(elements, sequence);
        world.copy(Tensor::wrap(next.data(), DType::f32, {elements}), from);
        remote.put(from, until).wait().or_throw();
      }
      expect_costs(world, Role::puts, ends().writer, elements, count);
    }
    meet(world);
  }

  /// Over shared memory the writer's GPU copies into the owner's, and nothing is staged. Else an
  /// end on a GPU stages each tensor once, by one copy, and one in host memory nothing.
  static void expect_costs(const World& world, Role role, Memory memory, std::int64_t elements,
                           std::uint64_t count) {
    const EdgeReport edge = edge_of(world, "in", role);
    const std::uint64_t bytes = 4 * static_cast<std::uint64_t>(elements) * count;
    EXPECT_EQ(edge.counters.transfers, count);
    EXPECT_EQ(edge.counters.bytes_moved, bytes);
    EXPECT_EQ(edge.counters.bytes_copied, 0U);
    if (fabric() == Over::shm && ends().owner.is_gpu() && bytes != 0) {
      EXPECT_EQ(edge.way, "mapped");
      EXPECT_NE(edge.reason.find("GPU"), std::string::npos);
      EXPECT_EQ(edge.counters.staged_bytes, 0U);
      EXPECT_EQ(edge.counters.device_copies, role == Role::puts ? count : 0);
      return;
    }
    if (moves_by_nic(fabric()) && bytes != 0) {
      EXPECT_EQ(edge.way, memory.is_gpu() || ends().owner.is_gpu() ? "gpudirect" : "direct");
      EXPECT_EQ(edge.counters.staged_bytes, 0U);
      EXPECT_EQ(edge.counters.device_copies, 0U);
      EXPECT_EQ(edge.counters.work_requests, role == Role::puts ? count : 0U);
      EXPECT_EQ(edge.counters.gpu_flushes != 0, role == Role::receives && memory.is_gpu());
      return;
    }
    EXPECT_EQ(edge.counters.staged_bytes, memory.is_gpu() ? bytes : 0);
    EXPECT_EQ(edge.counters.device_copies, memory.is_gpu() && bytes != 0 ? count : 0);
    EXPECT_EQ(edge.way, memory.is_gpu() && bytes != 0 ? "staged" : "direct");
    EXPECT_EQ(edge.reason.find("GPU") != std::string::npos, memory.is_gpu() && bytes != 0);
  }
};

TEST_P(GpuPuts, BringEachTensorWhole) {
  run_over(fabric(), [](World& world) { exchange(world, 1000, 1, 4, Until::reusable); });
}

TEST_P(GpuPuts, ShowADeliveredTensor) {
  run_over(fabric(), [](World& world) { exchange(world, 300, 2, 5, Until::delivered); });
}

TEST_P(GpuPuts, TakeSmallAndEmptyTensors) {
  run_over(fabric(), [](World& world) { exchange(world, 3, 2, 5, Until::reusable); });
  run_over(fabric(), [](World& world) { exchange(world, 0, 2, 5, Until::reusable); });
}

TEST_P(GpuPuts, GoOnWhileTheirRequestsAreOpen) {
  run_over(fabric(), [](World& world) {
    constexpr std::int64_t kElements = 70'000;
    constexpr std::uint64_t kCount = 12;
    if (world.rank() == 0) {
      Slot slot = world.expose(spec(kElements, 4));
      for (std::uint64_t sequence = 1; sequence <= kCount; ++sequence) {
        const Arrival arrival = slot.wait().value();
        EXPECT_EQ(seen_by_application(world, arrival.tensor()), values(kElements, sequence));
      }
    } else {
      RemoteSlot remote = world.attach(0, spec(kElements, 4));
      std::vector<Request> requests;
      for (std::uint64_t sequence = 1; sequence <= kCount; ++sequence)
        requests.push_back(
            remote.put(tensor_of(world, ends().writer, values(kElements, sequence))));
      for (Request& request : requests) request.wait().or_throw();
    }
    meet(world);
  });
}

TEST_P(GpuPuts, GatherTensorsOfBothKinds) {
  run_over(fabric(), [](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec(100, 1));
      EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), values(100, 1));
    } else {
      RemoteSlot remote = world.attach(0, spec(100, 1));
      auto all = values(100, 1);
      const Tensor whole = tensor_of(world, ends().writer, all);
      const std::vector<Tensor> parts{whole.part(0, {30}),
                                      Tensor::wrap(all.data() + 30, DType::f32, {50}),
                                      whole.part(80, {20})};
      remote.put(parts).wait().or_throw();
    }
    meet(world);
  });
}

std::vector<Ends> mixed_ends() {
  return {{Memory::gpu(0), {}}, {{}, Memory::gpu(0)}, {Memory::gpu(), Memory::gpu()}};
}

INSTANTIATE_TEST_SUITE_P(Over, GpuPuts,
                         testing::Combine(testing::ValuesIn(all_fabrics()),
                                          testing::ValuesIn(mixed_ends())),
                         [](const auto& info) {
                           return name_of(std::get<0>(info.param)) + "_" +
                                  name_of(std::get<1>(info.param));
                         });

class GpuSlots : public OnGpus {
 protected:
  /// In their steady state puts to a GPU make `copies_of_a_put` each, and no call that costs more.
  void expect_only_copies(std::uint64_t copies_of_a_put);
};

class StagedGpuSlots : public GpuSlots {
  stand_in::Options options() const override { return without_exports(); }
};

#if defined(WEFT_TEST_SIMULATION)
TEST_F(GpuSlots, AreRightHoweverLateStreamsAre) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    ASSERT_EQ(
        control()->restart(
            {.pace = stand_in::Pace::lazy, .seed = seed, .idle = std::chrono::milliseconds(0)}),
        std::vector<std::string>{});
    const SlotSpec spec{.name = "in", .shape = {500}, .depth = 2, .memory = Memory::gpu(0)};
    run_over(
        Over::simulation,
        [&](World& world) {
          if (world.rank() == 0) {
            Slot slot = world.expose(spec);
            for (float first = 1; first <= 6; ++first)
              EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                        counted(500, first))
                  << "seed " << seed;
          } else {
            RemoteSlot remote = world.attach(0, spec);
            std::vector<Request> requests;
            for (float first = 1; first <= 6; ++first)
              requests.push_back(remote.put(tensor_of(world, Memory::gpu(1), counted(500, first))));
            for (Request& request : requests) request.wait().or_throw();
          }
          meet(world);
        },
        seed);
  }
}
#endif

void GpuSlots::expect_only_copies(std::uint64_t copies_of_a_put) {
  run_on(1, [&](World& world) {
    const SlotSpec spec{.name = "in", .shape = {1000}, .depth = 2, .memory = Memory::gpu()};
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    const Tensor from = tensor_of(world, Memory::gpu(), counted(1000));
    expect_steady(*control(), copies_of_a_put, [&] {
      Request request = remote.put(from);
      request.wait().or_throw();
      slot.wait().value();
    });
  });
}

TEST_F(GpuSlots, CostOneCopyInTheSteadyState) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's counts";
  expect_only_copies(1);
}

TEST_F(StagedGpuSlots, CostNothingBesideTheirCopiesInTheSteadyState) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's counts";
  expect_only_copies(2);
}

TEST_F(GpuSlots, LieInMemoryThatIsGiven) {
  run_on(1, [&](World& world) {
    const SlotSpec spec{.name = "in", .shape = {8}, .depth = 2};
    const Tensor memory = world.allocate(DType::f32, {16}, Memory::gpu(0));
    Slot slot = world.expose(spec, memory);
    EXPECT_EQ(slot.spec().memory, Memory::gpu(0));
    RemoteSlot remote = world.attach(0, spec);
    for (float first = 1; first <= 2; ++first) {
      remote.put(tensor_of(world, {}, counted(8, first))).wait().or_throw();
      const Arrival arrival = slot.wait().value();
      EXPECT_EQ(arrival.tensor().data(), memory.data() + (first == 1 ? 0 : 32));
      EXPECT_EQ(seen_by_application(world, arrival.tensor()), counted(8, first));
    }
  });
}

TEST_F(GpuSlots, RefuseWhatTheyCantTake) {
  run_on(1, [&](World& world) {
    const OwnContext own(driver());
    const SlotSpec spec{.name = "in", .shape = {4, 4}, .memory = Memory::gpu(0)};
    const auto exposing = [&](const SlotSpec& asked, const Tensor& memory) {
      return thrown_by(
          [&] { memory.empty() ? (void)world.expose(asked) : (void)world.expose(asked, memory); });
    };
    SlotSpec other = spec;
    other.memory = Memory::gpu(99);
    EXPECT_TRUE(tells(exposing(other, {}), Code::bad_argument, {"no GPU 99"}));
    EXPECT_TRUE(tells(exposing(spec, world.allocate(DType::f32, {16})), Code::bad_argument,
                      {"to lie on GPU 0", "host memory"}));
    DevicePointer pointer = 0;
    ASSERT_OK(driver().allocate(&pointer, 64));
    const auto wrapped = [&](std::int64_t elements) {
      return Tensor::wrap(reinterpret_cast<void*>(pointer), DType::f32, {elements}, Memory::gpu(0));
    };
    EXPECT_TRUE(tells(exposing(spec, wrapped(16)), Code::bad_argument,
                      {"the caller's own, on GPU 0", "SlotSpec::memory"}));
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    const Tensor gpu = world.allocate(DType::f32, {4, 8}, Memory::gpu(0));
    EXPECT_TRUE(tells(remote.put(gpu).wait(), Code::mismatch, {"f32[4, 8]"}));
    EXPECT_TRUE(
        tells(remote.put(gpu.slice(1, 0, 4)).wait(), Code::bad_argument, {"GPU 0", "strides"}));
    const auto square = [&](std::int64_t) {
      return Tensor::wrap(reinterpret_cast<void*>(pointer), DType::f32, {4, 4}, Memory::gpu(0));
    };
    remote.put(square(0)).wait().or_throw();
    EXPECT_TRUE(slot.wait().ok());
    ASSERT_OK(driver().free(pointer));
    EXPECT_TRUE(tells(remote.put(square(0)).wait(), Code::bad_argument, {"it was freed"}));
    if (control() == nullptr) return;
    const Tensor far = world.allocate(DType::f32, {8}, Memory::gpu(1));
    const std::vector<Tensor> both{gpu.part(0, {8}), far};
    EXPECT_TRUE(tells(remote.put(both).wait(), Code::bad_argument, {"GPU 0", "GPU 1"}));
    EXPECT_EQ(slot.wait(Deadline::after(std::chrono::milliseconds(20))).code(), Code::timeout);
    remote.put(gpu.part(0, {4, 4})).wait().or_throw();
    EXPECT_EQ(slot.wait().value().sequence(), 2U);
  });
}

}  // namespace
}  // namespace weft::tests
