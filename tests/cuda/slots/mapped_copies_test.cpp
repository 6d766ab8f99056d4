// A GPU's copies into the owner's are under way while the deadline passes, an end, the rank or the
// GPU goes: they never write a buffer that is not theirs.
#include "tests/cuda/slots/mapped.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

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

}  // namespace
}  // namespace weft::tests
