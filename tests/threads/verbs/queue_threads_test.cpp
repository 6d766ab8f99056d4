// Completion queues with threads of their own (WEFT_CQS), and arrivals while those are late.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <pthread.h>

#include "tests/threads/verbs/nics.hpp"
#include "tests/unit/verbs/recording_verbs.hpp"

namespace weft {
namespace {

using tests::Meeting;
using tests::NicJob;

/// A NIC at which a queue's own thread pauses between taking a completion and showing it.
class SlowToShow final : public p2p::verbs::RecordingVerbs {
 public:
  using RecordingVerbs::RecordingVerbs;

  int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) noexcept override {
    const int count = RecordingVerbs::poll_cq(cq, most, completions);
    std::array<char, 16> name{};
    if (count > 0 && pauses && pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
        std::string(name.data()) == "weft-cq") {
      has_taken = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return count;
  }

  std::atomic<bool> pauses{false};
  std::atomic<bool> has_taken{false};
};

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

TEST(QueueThreads, ThatHoldACompletionAreAwaitedBeforeNothingHasCome) {
  const SlotSpec spec{.name = "in", .dtype = DType::u8, .shape = {100}};
  p2p::verbs::fake::FakeNetwork network;
  std::atomic<SlowToShow*> owners_nic{nullptr};
  Meeting meeting(2);
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          Slot slot = world.expose(spec);
          meeting.wait();
          SlowToShow& nic = *owners_nic;
          nic.pauses = true;
          meeting.wait();
          EXPECT_TRUE(tests::soon([&] { return nic.has_taken.load(); }));
          EXPECT_TRUE(slot.ready());
          nic.pauses = false;
          EXPECT_TRUE(slot.wait().ok());
        } else {
          RemoteSlot remote = world.attach(0, spec);
          const Tensor tensor = world.allocate(spec.dtype, spec.shape);
          meeting.wait();
          meeting.wait();
          EXPECT_TRUE(remote.put(tensor).wait().ok());
        }
      },
      tests::verbs_settings().with(Setting::cqs, "1"),
      [&](int rank) {
        auto nic = std::make_shared<SlowToShow>(network.devices(rank, {{}}));
        if (rank == 0) owners_nic = nic.get();
        return nic;
      });
}

}  // namespace
}  // namespace weft
