// Completion queues with threads of their own (WEFT_CQS), and arrivals while those are late.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/threads/verbs/nics.hpp"

namespace weft {
namespace {

using tests::Meeting;
using tests::NicJob;

TEST(QueueThreads, ThatAreLateHideNoTensorThatHasArrived) {
  const SlotSpec spec{.name = "in", .dtype = DType::u8, .shape = {100}};
  NicJob job;
  Meeting meeting(2);
  job.run(2, tests::verbs_settings().with(Setting::cqs, "1"), [&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec);
      meeting.wait();
      // By then the thread sleeps.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      job.network.set_faults(0, {.silent = true});
      meeting.wait();
      EXPECT_TRUE(tests::soon([&] { return slot.ready(); }));
      job.network.set_faults(0, {});
      EXPECT_TRUE(slot.wait().ok());
    } else {
      RemoteSlot remote = world.attach(0, spec);
      const Tensor tensor = world.allocate(spec.dtype, spec.shape);
      meeting.wait();
      meeting.wait();
      EXPECT_TRUE(remote.put(tensor).wait().ok());
    }
  });
}

}  // namespace
}  // namespace weft
