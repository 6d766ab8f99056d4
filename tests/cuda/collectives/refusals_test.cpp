// Refusals that pass: a call goes by host memory on all ranks, and a later one by the GPUs again.
#include <barrier>
#include <optional>
#include <thread>

#include "p2p/transport/cuda/peer_memory.hpp"
#include "tests/cuda/slots/streams.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

/// Several ranks, which share two GPUs.
class PassingRefusals : public OnStandInStreams {
 protected:
  static constexpr std::size_t kElements = 3000;
  static constexpr std::size_t kBytes = kElements * sizeof(float);

  static void run(int ranks, const std::function<void(World&)>& body) {
    run_on(ranks, settings().with(Setting::log, "off").with(Setting::fabric, "shm"), body);
  }
  static Tensor own_tensor(World& world) {
    return tensor_of(world, Memory::gpu(world.rank() % 2), counted(kElements));
  }
};

/// The last rank can't map memory. The others look one after another, each at those before it
/// first, which go by host memory only because another rank does.
TEST_F(PassingRefusals, EndOnAllRanksHoweverLateSomeLook) {
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    std::barrier<> all(ranks);
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor tensor = own_tensor(world);
      Plan plan = group.plan(all_reduce(tensor, Reduction::max));
      all.arrive_and_wait();
      const int last = ranks - 1;
      if (world.rank() != last) plan.start().or_throw();
      all.arrive_and_wait();
      if (world.rank() == last) {
        control()->refuse("cuMemSetAccess", 1, DriverStatus::unknown);
        plan.start().or_throw();
      }
      // Each copies its input and announces the call by host memory.
      for (int turn = 0; turn < ranks; ++turn) {
        if (world.rank() == (last + turn) % ranks)
          (void)plan.wait(Deadline::after(milliseconds(50)));
        all.arrive_and_wait();
      }
      plan.wait().or_throw();
      EXPECT_EQ(group.staged_bytes(), 2 * kBytes);
      for (int i = 0; i < 3; ++i) plan.run().or_throw();
      EXPECT_EQ(group.staged_bytes(), 2 * kBytes) << "later runs are the GPUs'";
      EXPECT_EQ(elements_of(world, tensor), counted(kElements));
      all.arrive_and_wait();
    });
  }
}

/// A group that has not used its GPU yet can't begin to while a stream waits.
TEST_F(PassingRefusals, OfPlansThatAreMadeWhileAStreamWaits) {
  std::barrier<> both(2);
  run(2, [&](World& world) {
    const Tensor tensor = own_tensor(world);
    auto before = Collectives::open(world);
    // Pins the host memory and loads the kernels.
    before.run(scan(tensor, tensor, Reduction::max)).or_throw();
    before.run(all_reduce(tensor, Reduction::max)).or_throw();
    auto group = Collectives::open(world);
    Plan plan;
    const auto expect = [&](std::uint64_t staged) {
      EXPECT_EQ(group.staged_bytes(), staged);
      EXPECT_EQ(elements_of(world, tensor), counted(kElements));
    };
    const auto during = [&] {
      both.arrive_and_wait();
      plan = group.plan(all_reduce(tensor, Reduction::max));
      plan.run().or_throw();
      EXPECT_EQ(group.staged_bytes(), 2 * kBytes);
      group.run(all_reduce(tensor, Reduction::max)).or_throw();
      plan.run().or_throw();
      EXPECT_EQ(group.staged_bytes(), 6 * kBytes);
      both.arrive_and_wait();
    };
    if (world.rank() == 0) {
      Slot slot = world.expose(stream_spec(Memory::gpu(0), kElements));
      OwnStream own(world, 0, kElements, 1);
      meet(world, "exposed");
      (void)slot.wait_on(own.get()).value();
      own.synchronize();
      meet(world, "prepared");
      const Arrival arrival = slot.wait_on(own.get()).value();
      during();
      own.synchronize();
      meet(world, "put");
    } else {
      RemoteSlot remote = world.attach(0, stream_spec({}, kElements));
      meet(world, "exposed");
      remote.put(tensor).wait().or_throw();
      meet(world, "prepared");
      during();
      remote.put(tensor).wait().or_throw();
      meet(world, "put");
    }
    expect(6 * kBytes);
    for (int i = 0; i < 3; ++i) plan.run().or_throw();
    expect(6 * kBytes);
    meet(world, "end");
  });
}

/// As the driver may wait for all streams.
TEST_F(PassingRefusals, NoStreamBeginsToWaitWhileAGroupBeginsToUseItsGpu) {
  std::barrier<> both(2);
  run(2, [&](World& world) {
    const Tensor tensor = own_tensor(world);
    auto group = Collectives::open(world);
    // Whether `call` comes to the driver only once no one holds streams up.
    const auto is_held_up = [&](const char* function, const auto& call) {
      std::optional<p2p::cuda::StreamWords::NoneBegins> none;
      if (world.rank() == 0) none.emplace();
      both.arrive_and_wait();
      const std::uint64_t before = control()->calls(function);
      std::thread other(call);
      std::this_thread::sleep_for(milliseconds(50));
      EXPECT_EQ(control()->calls(function), before);
      both.arrive_and_wait();
      none.reset();
      other.join();
      both.arrive_and_wait();
      EXPECT_GT(control()->calls(function), before);
    };
    if (world.rank() == 0) {
      Slot slot = world.expose(stream_spec(Memory::gpu(0), kElements));
      OwnStream own(world, 0, kElements, 1);
      meet(world, "exposed");
      (void)slot.wait_on(own.get()).value();
      own.synchronize();
      is_held_up("cuStreamWaitValue32_v2", [&] { (void)slot.wait_on(own.get()).value(); });
      meet(world, "waits");
      own.synchronize();
      meet(world, "end of streams");
    } else {
      RemoteSlot remote = world.attach(0, stream_spec({}, kElements));
      meet(world, "exposed");
      remote.put(tensor).wait().or_throw();
      is_held_up("cuStreamWaitValue32_v2", [] {});
      meet(world, "waits");
      remote.put(tensor).wait().or_throw();
      meet(world, "end of streams");
    }
    is_held_up("cuMemSetAccess", [&] { group.run(all_reduce(tensor, Reduction::max)).or_throw(); });
    EXPECT_EQ(group.staged_bytes(), 0U);
  });
}

/// A group must not wait for news of such a chunk.
TEST(ChunksOfPeers, BeyondTheMostAreKnownToBeMissing) {
  p2p::cuda::PeerMemory peers;
  for (std::uint32_t chunk = 0; chunk < p2p::cuda::PeerMemory::kMostChunks; ++chunk)
    peers.keep(1, chunk, {}, {});
  EXPECT_FALSE(peers.has_dropped(1));
  peers.keep(1, 0, {}, {});
  EXPECT_FALSE(peers.has_dropped(1)) << "it is here";
  peers.keep(2, 7, {}, {});
  EXPECT_TRUE(peers.has_dropped(2));
  EXPECT_FALSE(peers.told(2, 7).has_value());
  EXPECT_FALSE(peers.has_dropped(1));
  peers.forget(2);
  EXPECT_FALSE(peers.has_dropped(2));
}

}  // namespace
}  // namespace weft::tests
