// Puts of which the writer's GPU copies each into the owner's: what they cost, when they are not
// possible, and that they never write a buffer that is not theirs.
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kElements = 1000;

SlotSpec spec_on(Memory memory, std::uint32_t depth = 2) {
  return {.name = "in", .shape = {kElements}, .depth = depth, .memory = memory};
}

/// A rank whose own GPU is that one.
Config with_gpu(const char* number) {
  return settings().with(Setting::gpu, number).with(Setting::log, "off");
}

/// Whether a way has the words in its reason.
testing::AssertionResult has(const EdgeReport& edge, const std::string& way,
                             const std::string& words) {
  if (edge.way == way && edge.reason.find(words) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << edge.way << ": " << edge.reason;
}

class MappedPuts : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's two GPUs";
  }

  /// A rank puts from its own GPU, 0 or 1, to another rank's GPU 0; both ends must say that they go
  /// that way.
  void expect_way(
      const char* gpu, const std::string& way, const std::string& words,
      const std::function<void()>& before_attach = [] {}) {
    Meeting exposed(2);
    constexpr int kCount = 5;
    const auto expect_edge = [&](World& world, Role role) {
      const EdgeReport edge = edge_of(world, "in", role);
      EXPECT_TRUE(has(edge, way, words));
      EXPECT_EQ(edge.counters.transfers, 0U + kCount);
      EXPECT_EQ(edge.counters.staged_bytes, way == "mapped" ? 0U : 4U * kCount * kElements);
    };
    run_pair(
        [&](World& world) {
          Slot slot = world.expose(spec_on(Memory::gpu(0)));
          exposed.wait();
          for (int i = 0; i < kCount; ++i)
            EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                      counted(kElements, static_cast<float>(i)));
          expect_edge(world, Role::receives);
          meet(world);
        },
        [&](World& world) {
          const Tensor from = tensor_of(world, Memory::gpu(), counted(kElements));
          exposed.wait();
          before_attach();
          RemoteSlot remote = world.attach(0, spec_on({}));
          for (int i = 0; i < kCount; ++i) {
            world.copy(tensor_of(world, {}, counted(kElements, static_cast<float>(i))), from);
            remote.put(from).wait().or_throw();
          }
          expect_edge(world, Role::puts);
          meet(world);
        },
        with_gpu(gpu));
  }
};

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

/// Copies take tens of milliseconds.
class MappedCopies : public MappedPuts {
 protected:
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(1)); }
  std::uint64_t copies() { return control()->calls("cuMemcpyAsync"); }
};

TEST_F(MappedCopies, BeginWhileThePutBeforeIsCopied) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0), 3));
    RemoteSlot remote = world.attach(0, spec_on({}, 3));
    std::vector<Tensor> tensors;
    for (float first = 1; first <= 3; ++first)
      tensors.push_back(tensor_of(world, Memory::gpu(), counted(kElements, first)));
    const std::uint64_t before = copies();
    std::vector<Request> requests;
    for (const Tensor& tensor : tensors) requests.push_back(remote.put(tensor));
    EXPECT_EQ(copies() - before, 2U) << "of the first two";
    for (float first = 1; first <= 3; ++first)
      EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                counted(kElements, first));
    for (Request& request : requests) request.wait().or_throw();
  });
}

TEST_F(MappedCopies, NeverBeginBeforeTheirBufferIsFree) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    const auto tensor = [&](float first) {
      return tensor_of(world, Memory::gpu(), counted(kElements, first));
    };
    const std::vector<Tensor> tensors{tensor(1), tensor(2), tensor(3), tensor(4)};
    remote.put(tensors[0]).wait().or_throw();
    std::optional<Arrival> held = slot.wait().value();
    std::vector<Request> requests;
    for (int i = 1; i < 4; ++i)
      requests.push_back(remote.put(tensors[static_cast<std::size_t>(i)]));
    requests[0].wait().or_throw();
    const std::uint64_t before = copies();
    EXPECT_EQ(requests[1].wait(Deadline::after(milliseconds(80))).code(), Code::timeout);
    EXPECT_EQ(copies() - before, 0U);
    EXPECT_EQ(seen_by_application(world, held->tensor()), counted(kElements, 1));
    held.reset();
    for (float first = 2; first <= 4; ++first)
      EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                counted(kElements, first));
    for (Request& request : requests) request.wait().or_throw();
  });
}

TEST_F(MappedCopies, AreOverBeforeATensorIsSaidToBeThere) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    const Tensor from = tensor_of(world, Memory::gpu(), counted(kElements, 5));
    // A planted defect: the driver says that the copy has ended although it has not begun.
    control()->claim_ends(1);
    Request request = remote.put(from);
    const Arrival arrival = slot.wait().value();
    const std::byte* const there =
        control()->reach(address(arrival.tensor().data()), sizeof(float) * 2, 0);
    float seen[2];
    std::memcpy(seen, there, sizeof seen);
    EXPECT_NE(seen[1], 6.F) << "a put that does not wait for its copy is not found out";
    request.wait().or_throw();
    EXPECT_TRUE(soon(
        [&] { return seen_by_application(world, arrival.tensor()) == counted(kElements, 5); }));
  });
}

TEST_F(MappedCopies, OutliveTheDeadlineOfAPut) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    Request request = remote.put(tensor_of(world, Memory::gpu(), counted(kElements)));
    EXPECT_TRUE(tells(request.wait(at_once()), Code::timeout,
                      {"its GPU has not copied the tensor to the owner's GPU"}));
    request.wait().or_throw();
    EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), counted(kElements));
  });
}

TEST_F(MappedCopies, CantBeCancelled) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    Request request = remote.put(tensor_of(world, Memory::gpu(), counted(kElements)));
    EXPECT_TRUE(tells(request.cancel(), Code::bad_argument, {"a GPU copies the tensor"}));
    request.wait().or_throw();
    EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), counted(kElements));
  });
}

TEST_F(MappedCopies, EndBeforeAnotherEndTakesTheirPlace) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    {
      RemoteSlot remote = world.attach(0, spec_on({}));
      Request request = remote.put(tensor_of(world, Memory::gpu(), counted(kElements)));
      EXPECT_FALSE(request.test());
    }
    RemoteSlot remote = world.attach(0, spec_on({}));
    // Another GPU's copy, which is in no order with that of the put before.
    remote.put(tensor_of(world, Memory::gpu(0), counted(kElements, 50))).wait().or_throw();
    const Arrival arrival = slot.wait().value();
    EXPECT_EQ(arrival.sequence(), 1U);
    EXPECT_EQ(seen_by_application(world, arrival.tensor()), counted(kElements, 50));
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(seen_by_application(world, arrival.tensor()), counted(kElements, 50));
  });
}

TEST_F(MappedCopies, KeepASlotThatIsClosedInQuarantine) {
  run_on(1, with_gpu("1"), [&](World& world) {
    const auto quarantined = [&] {
      std::uint64_t bytes = 0;
      for (const auto& arena : world.report().arenas)
        if (arena.sort == "GPU 0") bytes = arena.quarantined_bytes;
      return bytes;
    };
    std::optional<Slot> slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    const Tensor from = tensor_of(world, Memory::gpu(), counted(kElements));
    Request request = remote.put(from);
    slot.reset();
    EXPECT_TRUE(soon([&] { return quarantined() != 0; }));
    EXPECT_EQ(request.wait().code(), Code::closed);
    EXPECT_TRUE(soon([&] { return quarantined() == 0; }));
  });
}

TEST_F(MappedCopies, EndBeforeTheirRankHasLeft) {
  run_pair(
      [&](World& world) {
        std::optional<Slot> slot = world.expose(spec_on(Memory::gpu(0)));
        EXPECT_FALSE(slot->wait().ok());
        slot.reset();
        // The same memory, once its writer is gone.
        const Tensor next = tensor_of(world, Memory::gpu(0), counted(2 * kElements, 9));
        std::this_thread::sleep_for(milliseconds(100));
        EXPECT_EQ(seen_by_application(world, next), counted(2 * kElements, 9));
      },
      [&](World& world) {
        RemoteSlot remote = world.attach(0, spec_on({}));
        Request request = remote.put(tensor_of(world, Memory::gpu(), counted(kElements)));
        EXPECT_FALSE(request.test());
      },
      settings().with(Setting::log, "off"));
}

TEST_F(MappedCopies, EndWithAGpuThatIsLost) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0), 3));
    RemoteSlot remote = world.attach(0, spec_on({}, 3));
    const Tensor from = tensor_of(world, Memory::gpu(), counted(kElements, 3));
    Request request = remote.put(from);
    Request next = remote.put(from);
    control()->lose(1, DriverStatus::ecc_uncorrectable);
    EXPECT_TRUE(
        tells(request.wait(), Code::system, {"GPU 1", "CUDA_ERROR_ECC_UNCORRECTABLE", "\"in\""}));
    EXPECT_EQ(next.wait().code(), Code::system);
    control()->lose(1, DriverStatus::success);
    remote.put(from).wait().or_throw();
    const Arrival arrival = slot.wait().value();
    EXPECT_EQ(arrival.sequence(), 1U);
    EXPECT_EQ(seen_by_application(world, arrival.tensor()), counted(kElements, 3));
  });
}

TEST_F(MappedCopies, GiveTypedErrorsForTheDriversRefusals) {
  run_on(1, with_gpu("1"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    const Tensor from = tensor_of(world, Memory::gpu(), counted(kElements, 2));
    std::uint64_t sequence = 0;
    for (const char* function :
         {"cuCtxPushCurrent_v2", "cuMemcpyAsync", "cuEventRecord", "cuEventQuery"}) {
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(remote.put(from).wait(), Code::system, {"GPU 1", "CUDA_ERROR_UNKNOWN"}))
          << function;
      remote.put(from).wait().or_throw();
      const Arrival arrival = slot.wait().value();
      EXPECT_EQ(arrival.sequence(), ++sequence) << function;
      EXPECT_EQ(seen_by_application(world, arrival.tensor()), counted(kElements, 2)) << function;
    }
  });
}

TEST_F(MappedPuts, AreRightHoweverLateStreamsAre) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(2)}),
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
