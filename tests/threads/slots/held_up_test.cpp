// With several buffers not every release is reported; a writer that runs out of credits asks for
// them.
#include <gtest/gtest.h>

#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using std::chrono::seconds;

const SlotSpec kPut{.name = "put", .dtype = DType::f32, .shape = {100}, .depth = 4};
const SlotSpec kFlag{.name = "flag", .dtype = DType::u8, .shape = {1}, .depth = 1};

TEST(HeldUp, AWriterGetsTheCreditThatItsOwnerHasNotReported) {
  run_ranks(2, [](World& world) {
    const Tensor byte = world.allocate(DType::u8, {1});
    if (world.rank() == 0) {
      Slot slot = world.expose(kPut);
      Slot flag = world.expose(kFlag);
      slot.wait().value().release();
      // The owner now waits for something that comes only after the writer's fifth put.
      EXPECT_TRUE(flag.wait(Deadline::after(seconds(20))).ok());
      for (int n = 2; n <= 5; ++n) EXPECT_TRUE(slot.wait().ok());
    } else {
      RemoteSlot remote = world.attach(0, kPut);
      RemoteSlot flag = world.attach(0, kFlag);
      const Tensor tensor = world.allocate(DType::f32, {100});
      for (int n = 1; n <= 5; ++n)
        EXPECT_TRUE(remote.put(tensor).wait(Deadline::after(seconds(10))).ok()) << "put " << n;
      EXPECT_TRUE(flag.put(byte).wait().ok());
    }
  });
}

}  // namespace
}  // namespace weft::tests
