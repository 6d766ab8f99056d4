// Staging copies from and to GPUs are under way while the deadline passes, the put is cancelled, an
// end, the path or the GPU goes.
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

/// Copies take tens of milliseconds.
class CopiesUnderWay : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  stand_in::Options options() const override {
    return without_exports({.delay = milliseconds(40)});
  }
  static SlotSpec spec(Memory memory) {
    return {.name = "in", .shape = {100}, .depth = 2, .memory = memory};
  }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(1)); }
};

TEST_F(CopiesUnderWay, OutliveTheDeadlineOfAWait) {
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec({}));
    remote.put(tensor_of(world, {}, counted(100))).wait().or_throw();
    EXPECT_TRUE(slot.ready());
    EXPECT_TRUE(tells(slot.wait(at_once()).status(), Code::timeout,
                      {"has arrived", "GPU 0 has not copied it", "\"in\""}));
    const Arrival arrival = slot.wait().value();
    EXPECT_EQ(arrival.sequence(), 1U);
    EXPECT_EQ(elements_of(world, arrival.tensor()), counted(100));
    EXPECT_EQ(edge_of(world, "in", Role::receives).counters.staged_bytes, 400U);
  });
}

TEST_F(CopiesUnderWay, OutliveTheDeadlineOfAPut) {
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec({}));
    RemoteSlot remote = world.attach(0, spec({}));
    Request request = remote.put(tensor_of(world, Memory::gpu(0), counted(100)));
    EXPECT_TRUE(tells(request.wait(at_once()), Code::timeout, {"its GPU has not copied"}));
    request.wait().or_throw();
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(100));
  });
}

TEST_F(CopiesUnderWay, AreLetGoOfByACancelledPut) {
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec({}));
    RemoteSlot remote = world.attach(0, spec({}));
    Request request = remote.put(tensor_of(world, Memory::gpu(0), counted(100)));
    EXPECT_EQ(request.cancel().code(), Code::cancelled);
    EXPECT_EQ(slot.wait(Deadline::after(milliseconds(20))).code(), Code::timeout);
    remote.put(tensor_of(world, Memory::gpu(0), counted(100, 5))).wait().or_throw();
    const Arrival arrival = slot.wait().value();
    EXPECT_EQ(arrival.sequence(), 1U);
    EXPECT_EQ(elements_of(world, arrival.tensor()), counted(100, 5));
  });
}

TEST_F(CopiesUnderWay, OutliveTheEndsOfTheirSlot) {
  run_on(1, [&](World& world) {
    {
      Slot slot = world.expose(spec(Memory::gpu(0)));
      RemoteSlot remote = world.attach(0, spec({}));
      remote.put(tensor_of(world, {}, counted(100))).wait().or_throw();
      EXPECT_EQ(slot.wait(at_once()).code(), Code::timeout);
      Request request = remote.put(tensor_of(world, Memory::gpu(0), counted(100)));
      EXPECT_FALSE(request.test());
    }
    // Their memory is free once a later copy has looked after them.
    const Tensor host = world.allocate(DType::f32, {8});
    const auto used = [&] {
      world.copy(host, host);
      const Report report = world.report();
      return std::vector{report.arenas[3].used_bytes, report.arenas[4].used_bytes};
    };
    EXPECT_TRUE(soon([&] {
      return used() == std::vector<std::uint64_t>{0, 0};
    })) << used()[0]
        << " and " << used()[1];
  });
}

TEST_F(CopiesUnderWay, EndWithAGpuThatIsLost) {
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec({}));
    const Tensor from = tensor_of(world, Memory::gpu(0), counted(100));
    remote.put(tensor_of(world, {}, counted(100))).wait().or_throw();
    Request request = remote.put(from);
    control()->lose(0, DriverStatus::ecc_uncorrectable);
    EXPECT_TRUE(
        tells(request.wait(), Code::system, {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE", "\"in\""}));
    EXPECT_TRUE(tells(slot.wait().status(), Code::system,
                      {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE", "\"in\""}));
    control()->lose(0, DriverStatus::success);
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(100))
        << "the tensor is still there";
    remote.put(from).wait().or_throw();
    EXPECT_EQ(slot.wait().value().sequence(), 2U);
  });
}

TEST_F(CopiesUnderWay, GoByUnpinnedMemoryWhereTheDriverPinsNone) {
  control()->refuse("cuMemHostRegister_v2", 1, DriverStatus::not_supported);
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec({}));
    remote.put(tensor_of(world, Memory::gpu(0), counted(100))).wait().or_throw();
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(100));
  });
}

TEST_F(CopiesUnderWay, GiveTypedErrorsForTheDriversRefusals) {
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec({}));
    const Tensor from = tensor_of(world, Memory::gpu(0), counted(100));
    remote.put(from).wait().or_throw();
    slot.wait().value();
    std::uint64_t sequence = 1;
    for (const char* function :
         {"cuCtxPushCurrent_v2", "cuMemcpyAsync", "cuEventRecord", "cuEventQuery"}) {
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(remote.put(from).wait(), Code::system, {"GPU 0", "CUDA_ERROR_UNKNOWN"}))
          << function;
      remote.put(from).wait().or_throw();
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(
          tells(slot.wait().status(), Code::system, {"GPU 0", "CUDA_ERROR_UNKNOWN", "\"in\""}))
          << function;
      EXPECT_EQ(slot.wait().value().sequence(), ++sequence) << function;
    }
  });
}

#if defined(WEFT_TEST_SIMULATION)
TEST_F(CopiesUnderWay, EndWithTheirPath) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    // In simulated time only what is asked for moves on.
    control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(0)});
    SimJob job(2, {.seed = seed}, simulated_settings().with(Setting::arena_chunk, "2m"));
    const SimOutcome outcome = job.run([&](World& world) {
      if (world.rank() == 1) {
        RemoteSlot remote = world.attach(0, spec({}));
        const Tensor from = tensor_of(world, Memory::gpu(1), counted(100));
        remote.put(from, Until::delivered).wait().or_throw();
        const Until until = seed % 2 == 0 ? Until::delivered : Until::reusable;
        Request request = remote.put(from, until);
        job.disconnect(0, 1);
        const Status status = request.wait();
        EXPECT_NE(status.code(), Code::timeout) << "seed " << seed;
        EXPECT_TRUE(!status.ok() || until == Until::reusable) << "seed " << seed;
        return;
      }
      Slot slot = world.expose(spec(Memory::gpu(0)));
      job.sleep(world, std::chrono::seconds(1));
      EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(100))
          << "the tensor had arrived";
      EXPECT_FALSE(slot.wait().ok());
    });
    EXPECT_EQ(outcome.failures, std::vector<std::string>{}) << outcome.text;
  }
}
#endif

}  // namespace
}  // namespace weft::tests
