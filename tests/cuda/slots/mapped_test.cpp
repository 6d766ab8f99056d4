// Puts of which the writer's GPU copies each into the owner's: what they cost, and when they are
// not possible.
#include "tests/cuda/slots/mapped.hpp"

namespace weft::tests {
namespace {

TEST_F(MappedPuts, GoWithinAGpu) { expect_way("0", "mapped", "mapped"); }
TEST_F(MappedPuts, GoFromGpuToGpu) { expect_way("1", "mapped", "mapped"); }

TEST_F(MappedPuts, AreProvenOnceForEachPairOfGpus) {
  run_on(1, with_gpu("1"), [&](World& world) {
    SlotSpec other = spec_on(Memory::gpu(0));
    other.name = "other";
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    Slot second = world.expose(other);
    RemoteSlot remote = world.attach(0, spec_on({}));
    const std::uint64_t copies = control()->calls("cuMemcpyAsync");
    RemoteSlot also = world.attach(0, other);
    EXPECT_EQ(control()->calls("cuMemcpyAsync"), copies);
    also.put(tensor_of(world, Memory::gpu(), counted(kElements))).wait().or_throw();
    EXPECT_EQ(elements_of(world, second.wait().value().tensor()), counted(kElements));
    EXPECT_TRUE(has(edge_of(world, "other", Role::puts), "mapped", "mapped"));
  });
}

TEST_F(MappedPuts, TakeTensorsWhereverTheyLie) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    const auto all = counted(kElements, 7);
    const auto expect_arrival = [&] {
      EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), all);
    };
    const auto copied = [&] { return edge_of(world, "in", Role::puts).counters.bytes_copied; };
    remote.put(tensor_of(world, {}, all)).wait().or_throw();
    expect_arrival();
    EXPECT_EQ(copied(), 0U);
    auto own = all;  // memory that no GPU reaches is packed first
    remote.put(Tensor::wrap(own.data(), DType::f32, {kElements})).wait().or_throw();
    expect_arrival();
    EXPECT_EQ(copied(), 4U * kElements);
    const Tensor gpu = tensor_of(world, Memory::gpu(), all);
    const std::vector<Tensor> parts{gpu.part(0, {300}),
                                    Tensor::wrap(own.data() + 300, DType::f32, {200}),
                                    gpu.part(500, {500})};
    remote.put(parts).wait().or_throw();
    expect_arrival();
    EXPECT_EQ(copied(), 4U * (kElements + 200));
    EXPECT_EQ(edge_of(world, "in", Role::puts).counters.device_copies, 1U + 1 + 3);
    EXPECT_EQ(edge_of(world, "in", Role::puts).counters.staged_bytes, 0U);
  });
}

TEST_F(MappedPuts, AreMixedWithStagedOnesOfAGpuThatCameLater) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(1), 4));
    RemoteSlot remote = world.attach(0, spec_on({}, 4));
    std::vector<Request> requests;
    for (int i = 0; i < 12; ++i) {
      const Memory memory = i % 3 == 1 ? Memory::gpu(0) : Memory::gpu(1);
      requests.push_back(
          remote.put(tensor_of(world, memory, counted(kElements, static_cast<float>(i)))));
      if (i < 3) continue;
      EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                counted(kElements, static_cast<float>(i - 3)));
    }
    for (int i = 9; i < 12; ++i)
      EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                counted(kElements, static_cast<float>(i)));
    for (Request& request : requests) request.wait().or_throw();
    EXPECT_EQ(edge_of(world, "in", Role::puts).counters.staged_bytes, 4U * 4 * kElements);
    EXPECT_TRUE(has(edge_of(world, "in", Role::puts), "staged", "not in use yet"));
  });
}

TEST_F(MappedPuts, AreStagedWhereTheDriverRefuses) {
  expect_way("1", "staged", "refuses to map",
             [&] { control()->refuse("cuMemSetAccess", 1, DriverStatus::not_supported); });
  expect_way("0", "staged", "could not copy",
             [&] { control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown); });
  expect_way("0", "staged", "could not copy",
             [&] { control()->refuse("cuEventQuery", 1, DriverStatus::unknown); });
}

TEST_F(MappedPuts, AreStagedWhereNoPageIsLeft) {
  run_on(1, with_gpu("0"), [&](World& world) {
    stand_in::Options small;
    small.gpus[0].bytes = std::size_t{2} << 20;
    ASSERT_EQ(control()->restart(small), std::vector<std::string>{});
    SlotSpec spec = spec_on(Memory::gpu(0), 1);
    spec.shape = {(2 << 20) / 4};
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    EXPECT_TRUE(has(edge_of(world, "in", Role::receives), "staged", "no memory left"));
    const auto all = counted((2 << 20) / 4);
    remote.put(tensor_of(world, {}, all)).wait().or_throw();
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), all);
  });
}

class WithoutExports : public MappedPuts {
  stand_in::Options options() const override { return without_exports(); }
};
TEST_F(WithoutExports, PutsAreStaged) { expect_way("0", "staged", "does not export"); }

class WithoutPeerAccess : public MappedPuts {
  stand_in::Options options() const override { return {.peer_access = false}; }
};
TEST_F(WithoutPeerAccess, PutsAreStagedBetweenGpusAlone) {
  expect_way("1", "staged", "can't access");
  expect_way("0", "mapped", "mapped");
}

class WithLostWrites : public MappedPuts {
  stand_in::Options options() const override { return {.peer_writes_lost = true}; }
};
TEST_F(WithLostWrites, PutsAreStagedBetweenGpusAlone) {
  expect_way("1", "staged", "is lost");
  expect_way("0", "mapped", "mapped");
}

class WithWritesAstray : public MappedPuts {
  stand_in::Options options() const override { return {.peer_writes_astray = true}; }
};
TEST_F(WithWritesAstray, PutsAreStagedBetweenGpusAlone) {
  expect_way("1", "staged", "does not see");
  expect_way("0", "mapped", "mapped");
}

TEST_F(MappedPuts, AreRightHoweverLateStreamsAre) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ASSERT_EQ(
        control()->restart(
            {.pace = stand_in::Pace::lazy, .seed = seed, .idle = std::chrono::milliseconds(2)}),
        std::vector<std::string>{});
    run_pair(
        [&](World& world) {
          Slot slot = world.expose(spec_on(Memory::gpu(0)));
          for (float first = 1; first <= 6; ++first)
            EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                      counted(kElements, first))
                << "seed " << seed;
          EXPECT_TRUE(has(edge_of(world, "in", Role::receives), "mapped", "mapped"));
          meet(world);
        },
        [&](World& world) {
          RemoteSlot remote = world.attach(0, spec_on({}));
          std::vector<Request> requests;
          for (float first = 1; first <= 6; ++first)
            requests.push_back(
                remote.put(tensor_of(world, Memory::gpu(), counted(kElements, first))));
          for (Request& request : requests) request.wait().or_throw();
          meet(world);
        },
        settings().with(Setting::log, "off"));
  }
}

}  // namespace
}  // namespace weft::tests
