// How ranks agree that GPUs carry out a call between hosts: refusals that pass, and its ends.
#include <thread>

#include "runtime/world/world_state.hpp"
#include "tests/cuda/collectives/held_kernel.hpp"
#include "tests/cuda/collectives/nics.hpp"
#include "tests/cuda/slots/streams.hpp"
#include "tests/support/soon.hpp"
#include "weft/collective.hpp"

#if defined(WEFT_TEST_FAKE_NIC)

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class NicsAgree : public OnNics {
 protected:
  static constexpr std::size_t kElements = 3000;
  static constexpr std::size_t kBytes = kElements * sizeof(float);

  static Tensor filled(World& world, float value, Memory memory = Memory::gpu()) {
    return tensor_of(world, memory, std::vector<float>(kElements, value));
  }
  /// Whether the rank's waiting threads look again without a bell.
  static bool looks_again(World& world) {
    return WorldAccess::state(world).local.waiter.has_silent();
  }
};

/// A rank can't use its GPU when the plan is made: that run is host memory's, the next the GPUs'.
TEST_F(NicsAgree, GoByHostMemoryWhileARankHasNoStreamAndByGpusThen) {
  for (const DriverStatus why : {DriverStatus::out_of_memory, DriverStatus::unknown}) {
    SCOPED_TRACE(static_cast<int>(why));
    Meeting all(3);
    run(3, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor tensor = filled(world, 2);
      const Call call = all_reduce(tensor, Reduction::max);
      Plan plan;
      all.wait();
      if (world.rank() == 0) {
        control()->refuse("cuStreamCreate", 1, why);
        plan = group.plan(call);
      }
      all.wait();
      if (world.rank() != 0) plan = group.plan(call);
      // The others start first, as the first rank looks again when it does.
      all.wait();
      if (world.rank() == 0) control()->refuse("cuStreamCreate", 1, why);
      plan.run().or_throw();
      EXPECT_EQ(group.staged_bytes(), 2 * kBytes);
      for (int i = 0; i < 3; ++i) plan.run().or_throw();
      EXPECT_EQ(group.staged_bytes(), 2 * kBytes) << "later runs are the GPUs'";
      EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kElements, 2));
      all.wait();
    });
  }
}

/// Such a rank makes calls ahead, and answers only that it has closed the group.
TEST_F(NicsAgree, LearnThatARankHasClosedTheGroupForAllCallsUnderWay) {
  Meeting gone(2);
  run(2, [&](World& world) {
    auto group = std::make_unique<Collectives>(Collectives::open(world));
    const Tensor tensor = filled(world, 3, world.rank() == 0 ? Memory() : Memory::gpu());
    const Tensor other = filled(world, 4, world.rank() == 0 ? Memory() : Memory::gpu());
    group->run(broadcast(tensor, 0)).or_throw();
    gone.wait();
    if (world.rank() == 0) {
      group->run(broadcast(tensor, 0)).or_throw();
      group->run(broadcast(other, 0)).or_throw();
      group.reset();
      gone.wait();
    } else {
      gone.wait();
      Plan first = group->plan(broadcast(tensor, 0));
      Plan second = group->plan(broadcast(other, 0));
      first.start().or_throw();
      second.start().or_throw();
      EXPECT_TRUE(soon([&] { return first.test() && second.test(); }, seconds(20)));
      EXPECT_OK_STATUS(first.wait());
      EXPECT_OK_STATUS(second.wait(Deadline::after(milliseconds(1))));
      EXPECT_EQ(elements_of(world, other), std::vector<float>(kElements, 4));
    }
    gone.wait();
  });
}

TEST_F(NicsAgree, EndWhereAPlanIsDestroyedMeanwhile) {
  Meeting step(2);
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    group.run(all_reduce(tensor, Reduction::max)).or_throw();
    Plan plan = group.plan(all_reduce(tensor, Reduction::max));
    if (world.rank() == 0) {
      plan.start().or_throw();
      plan = {};
      EXPECT_OK_STATUS(group.settle(Deadline::after(seconds(10))));
      EXPECT_FALSE(looks_again(world));
    }
    step.wait();
    if (world.rank() == 1) {
      EXPECT_TRUE(tells(plan.run(), Code::cancelled, {"rank 0 has given up"}));
    }
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kElements, 1));
    EXPECT_EQ(group.staged_bytes(), 0U);
    step.wait();
  });
}

/// A thread in run() that sleeps would be woken by no copy.
TEST_F(NicsAgree, LookAgainWhileAnInputIsCopiedAfterAll) {
  const stand_in::Options lazy{.pace = stand_in::Pace::lazy, .idle = milliseconds(0)};
  ASSERT_EQ(control()->restart(with_flushes(true, lazy)), std::vector<std::string>{});
  Meeting step(2);
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1, world.rank() == 0 ? Memory::gpu() : Memory());
    const Call call = all_reduce(tensor, Reduction::max);
    group.run(call).or_throw();
    step.wait();
    if (world.rank() == 1) {
      group.run(call).or_throw();
    } else {
      control()->stop_clock(true);
      const std::uint64_t before = control()->calls("cuEventRecord");
      std::thread runs([&] { EXPECT_OK_STATUS(group.run(call)); });
      EXPECT_TRUE(soon([&] { return control()->calls("cuEventRecord") > before; }));
      EXPECT_TRUE(soon([&] { return looks_again(world); }));
      control()->stop_clock(false);
      runs.join();
      EXPECT_FALSE(looks_again(world));
    }
    step.wait();
  });
}

TEST_F(NicsAgree, EndWhereARankDiesWhilePiecesMove) {
  HeldKernel held(*control());
  Meeting step(3);
  run(3, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1, Memory::gpu(world.rank() % 2));
    Call call = all_reduce(tensor, Reduction::sum);
    call.algorithm = Algorithm::direct;
    Plan plan = group.plan(call);
    plan.start().or_throw();
    // Each has all inputs, and the others lack what GPU 1 is to combine.
    EXPECT_TRUE(soon([&] {
      (void)plan.test();
      return held.begun() >= 3;
    }));
    step.wait();
    if (world.rank() != 1) {
      EXPECT_FALSE(plan.test());
      world.declare_dead(1, "the test says so");
      EXPECT_TRUE(tells(plan.wait(), Code::peer_failed, {"rank 1"}));
      EXPECT_OK_STATUS(group.settle(Deadline::after(seconds(10))));
      EXPECT_EQ(group.staged_bytes(), 0U);
    }
    step.wait();
    held.set_free();
    step.wait();
  });
}

}  // namespace
}  // namespace weft::tests

#endif
