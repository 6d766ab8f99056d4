// One tensor's copy goes on while another's does, or while a fabric moves it.
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {
namespace {

/// Copies take tens of milliseconds, and calls of the driver are counted.
class Overlap : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's counts";
  }
  stand_in::Options options() const override {
    return without_exports({.delay = std::chrono::milliseconds(40)});
  }
  std::uint64_t copies() { return control()->calls("cuMemcpyAsync"); }
};

TEST_F(Overlap, APutsCopyBeginsWhileThePutBeforeIsCopied) {
  for (const auto placement : {Placement::fixed, Placement::dynamic}) {
    run_on(1, [&](World& world) {
      const SlotSpec spec{.name = "in", .shape = {100}, .depth = 3, .placement = placement};
      Slot slot = world.expose(spec);
      RemoteSlot remote = world.attach(0, spec);
      std::vector<Tensor> tensors;
      for (float first = 1; first <= 3; ++first)
        tensors.push_back(tensor_of(world, Memory::gpu(0), counted(100, first)));
      const std::uint64_t before = copies();
      std::vector<Request> requests;
      for (const Tensor& tensor : tensors) requests.push_back(remote.put(tensor));
      EXPECT_EQ(copies() - before, 2U) << "of the first two";
      for (float first = 1; first <= 3; ++first)
        EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), counted(100, first));
      for (Request& request : requests) request.wait().or_throw();
    });
  }
}

TEST_F(Overlap, AllThatHasArrivedIsCopiedAtOnce) {
  run_on(1, [&](World& world) {
    const SlotSpec spec{.name = "in", .shape = {100}, .depth = 3, .memory = Memory::gpu(0)};
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    for (float first = 1; first <= 3; ++first)
      remote.put(tensor_of(world, {}, counted(100, first))).wait().or_throw();
    const std::uint64_t before = copies();
    const Arrival arrival = slot.wait().value();
    EXPECT_EQ(copies() - before, 3U);
    EXPECT_EQ(seen_by_application(world, arrival.tensor()), counted(100, 1));
    for (float first = 2; first <= 3; ++first)
      EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), counted(100, first));
  });
}

}  // namespace
}  // namespace weft::tests
