// The ends of collectives that go from GPU to GPU by NICs: late, given up, or failed.
#include <thread>

#include "tests/cuda/collectives/held_kernel.hpp"
#include "tests/cuda/collectives/nics.hpp"
#include "tests/cuda/slots/streams.hpp"
#include "weft/collective.hpp"

#if defined(WEFT_TEST_FAKE_NIC)

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kCount = 3000;

/// Each rank with a GPU of its own.
class NicEnds : public OnNics {
 protected:
  static Tensor filled(World& world, float value, std::size_t elements = kCount) {
    return tensor_of(world, Memory::gpu(world.rank() % 2), std::vector<float>(elements, value));
  }
  /// A sum that both GPUs have begun, and which GPU 1 does not end.
  static Plan begin_held(Collectives& group, const Tensor& tensor, const HeldKernel& held) {
    group.run(all_reduce(tensor, Reduction::max)).or_throw();
    Call call = all_reduce(tensor, Reduction::sum);
    call.algorithm = Algorithm::direct;
    Plan plan = group.plan(call);
    plan.start().or_throw();
    EXPECT_TRUE(soon([&] {
      (void)plan.wait(Deadline::after(milliseconds(1)));
      return held.begun() >= 2;
    }));
    return plan;
  }
};

TEST_F(NicEnds, NameTheGpuOrTheRankThatIsLateAndGoOn) {
  HeldKernel held(*control());
  Meeting late(2);
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    Plan plan = begin_held(group, tensor, held);
    late.wait();
    const Status why = plan.wait(Deadline::after(milliseconds(300)));
    if (world.rank() == 1)
      EXPECT_TRUE(tells(why, Code::timeout, {"GPU 1 has not done this rank's part yet"}));
    else
      EXPECT_TRUE(tells(why, Code::timeout, {"rank 1", "has entered it, but its part is late"}));
    late.wait();
    held.set_free();
    EXPECT_OK_STATUS(plan.wait());
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kCount, 7));
    EXPECT_EQ(group.staged_bytes(), 0U);
  });
}

TEST_F(NicEnds, NameTheRankThatHasNotEntered) {
  Meeting late(2);
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    if (world.rank() == 0) {
      plan.start().or_throw();
      EXPECT_TRUE(tells(plan.wait(Deadline::after(milliseconds(200))), Code::timeout,
                        {"rank 1", "has not"}));
    }
    late.wait();
    EXPECT_OK_STATUS(world.rank() == 0 ? plan.wait() : plan.run());
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kCount, 2));
    EXPECT_EQ(group.staged_bytes(), 0U);
  });
}

TEST_F(NicEnds, KeepTensorsLentWhileTheGpuWorks) {
  HeldKernel held(*control());
  Meeting step(2);
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    Plan plan = begin_held(group, tensor, held);
    step.wait();
    if (world.rank() == 1) {
      plan = {};
      EXPECT_TRUE(tells(group.settle(Deadline::after(milliseconds(20))), Code::timeout,
                        {"this rank's GPU still works"}));
    } else {
      EXPECT_TRUE(tells(plan.wait(), Code::cancelled, {"rank 1 has given up"}));
    }
    step.wait();
    held.set_free();
    EXPECT_OK_STATUS(group.settle(Deadline::after(seconds(10))));
    step.wait();
  });
}

/// A call of host memory is given up while the GPU works for one that began before it.
TEST_F(NicEnds, LendNoTensorsThatTheGpuDoesNotWorkOn) {
  HeldKernel held(*control());
  Meeting step(2);
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    Plan plan = begin_held(group, tensor, held);
    step.wait();
    const Tensor host = world.allocate(DType::f32, {8});
    const Status why =
        group.run(all_reduce(host, Reduction::sum), Deadline::after(milliseconds(300)));
    EXPECT_FALSE(why.ok());
    EXPECT_EQ(why.text().find("still works"), std::string::npos) << why.text();
    step.wait();
    held.set_free();
    EXPECT_OK_STATUS(group.settle(Deadline::after(seconds(10))));
    step.wait();
  });
}

TEST_F(NicEnds, EndTheGroupWhereAKernelOrTheGpuFails) {
  for (const bool is_lost : {false, true}) {
    Meeting failing(2);
    run(2, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor tensor = filled(world, 1);
      Call call = all_reduce(tensor, Reduction::sum);
      call.algorithm = Algorithm::direct;  // each needs the other's part
      Plan plan = group.plan(call);
      plan.run().or_throw();
      failing.wait();
      if (world.rank() == 0 && is_lost)
        control()->lose(0, DriverStatus::ecc_uncorrectable);
      else if (world.rank() == 0)
        control()->refuse("cuLaunchKernel", 1, DriverStatus::unknown);
      failing.wait();
      const Status why = plan.run();
      // Bytes that NICs bring to a lost GPU can't be flushed, which ends the path.
      if (is_lost)
        EXPECT_TRUE(why.code() == Code::system || why.code() == Code::path_failed) << why.text();
      else
        EXPECT_TRUE(tells(why, Code::system, {"CUDA_ERROR_UNKNOWN"}));
      EXPECT_EQ(plan.start().code(), why.code()) << "the group has ended";
      failing.wait();
      if (world.rank() == 0 && is_lost) control()->lose(0, DriverStatus::success);
      failing.wait();
      EXPECT_OK_STATUS(group.settle(Deadline::after(seconds(10))));
    });
    (void)control()->take_complaints();
  }
}

TEST_F(NicEnds, EndWithADeadRank) {
  Meeting begun(3);
  run(3, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    group.run(all_reduce(tensor, Reduction::sum)).or_throw();
    begun.wait();
    if (world.rank() == 2) {
      begun.wait();
      return;
    }
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    plan.start().or_throw();
    world.declare_dead(2, "the test says so");
    EXPECT_TRUE(tells(plan.wait(), Code::peer_failed, {"rank 2"}));
    begun.wait();
  });
}

TEST_F(NicEnds, EndWithARankThatLeavesBeforeTheCall) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    group.run(all_reduce(tensor, Reduction::sum)).or_throw();
    if (world.rank() == 1) {
      world.leave().or_throw();
      return;
    }
    EXPECT_EQ(group.run(all_reduce(tensor, Reduction::sum)).code(), Code::peer_left);
  });
}

TEST_F(NicEnds, EndWhereTheRanksMakeOtherCalls) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = filled(world, 1);
    group.run(all_reduce(tensor, Reduction::sum)).or_throw();
    const Status why =
        group.run(all_reduce(tensor, world.rank() == 0 ? Reduction::sum : Reduction::max));
    EXPECT_TRUE(tells(why, Code::mismatch, {"all_reduce"}));
  });
}

TEST_F(NicEnds, EndWhereARankHasClosedTheGroup) {
  Meeting closed(2);
  run(2, [&](World& world) {
    {
      auto group = Collectives::open(world);
      const Tensor tensor = filled(world, 1);
      group.run(all_reduce(tensor, Reduction::sum)).or_throw();
      if (world.rank() == 0) {
        closed.wait();
        EXPECT_EQ(group.run(all_reduce(tensor, Reduction::sum)).code(), Code::closed);
      }
    }
    if (world.rank() == 1) closed.wait();
    closed.wait();
  });
}

}  // namespace
}  // namespace weft::tests

#endif
