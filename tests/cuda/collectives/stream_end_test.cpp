// The ends of runs on streams: a rank that is late, leaves, or drops its plan; a driver that fails.
#include <atomic>
#include <barrier>
#include <optional>
#include <string>

#include "tests/cuda/collectives/stream_plans.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(StreamEnds, LetStreamsGoOnWhenARankIsLate) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    OwnStream own(world, gpu_of(world), kLength, 1);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    prepare(world, plan, own);
    if (world.rank() == 0) {
      plan.start(own.get(), Deadline::after(milliseconds(50))).or_throw();
      own.read(0, tensor);
      own.synchronize();
      EXPECT_EQ(outcome_of(plan), number(Code::timeout));
      EXPECT_EQ(own.elements(0), std::vector<float>(kLength, 2)) << "nothing was combined";
    }
    meet(world, "late");
    EXPECT_TRUE(soon([&] { return outcome_of(plan) == number(Code::timeout); }));
    EXPECT_TRUE(tells(plan.start(own.get()), Code::timeout, {"rank 0's stream waited for rank 1"}));
    EXPECT_OK_STATUS(group.settle(Deadline::after(seconds(5))));
    EXPECT_EQ(group.run(barrier()).code(), Code::timeout) << "the group has ended";
    meet(world, "end");
  });
}

TEST_F(StreamEnds, CountTheDeadlineFromWhenTheStreamComesToTheRun) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    OwnStream own(world, gpu_of(world), kLength, 1);
    Gate gate;
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    prepare(world, plan, own);
    gate.hold(own);
    const auto deadline = milliseconds(1500);
    plan.start(own.get(), Deadline::after(deadline)).or_throw();
    std::this_thread::sleep_for(deadline + milliseconds(200));
    EXPECT_EQ(outcome_of(plan), 0U);
    meet(world, "past");
    gate.open();
    own.synchronize();
    EXPECT_EQ(outcome_of(plan), 0U);
    meet(world, "end");
  });
}

TEST_F(StreamEnds, GiveReplaysAllOfTheDeadlineHoweverLongThePreparationTook) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    PlanRig rig(world, gpu_of(world), DType::f32, kLength);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    meet(world, "made");
    if (world.rank() == 1) std::this_thread::sleep_for(seconds(4));
    {
      const Captured graph(rig, [&] {
        plan.start(rig.stream(), world.rank() == 0 ? Deadline::after(seconds(6)) : Deadline())
            .or_throw();
      });
      meet(world, "captured");
      if (world.rank() == 1) std::this_thread::sleep_for(seconds(3));
      graph.launch(rig.handle());
      rig.synchronize();
      EXPECT_EQ(outcome_of(plan), 0U);
      EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kLength, 2));
    }
    meet(world, "end");
  });
}

TEST_F(StreamEnds, NameTheRankThatDoesNotPrepare) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    OwnStream own(world, gpu_of(world), kLength, 1);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    if (world.rank() == 0) {
      const auto begin = Clock::now();
      EXPECT_TRUE(tells(plan.start(own.get(), Deadline::after(milliseconds(50))), Code::timeout,
                        {"for streams", "rank 1"}));
      EXPECT_GE(Clock::now() - begin, milliseconds(50));
      EXPECT_LT(Clock::now() - begin, seconds(10));
    }
    meet(world, "late");
    plan.start(own.get()).or_throw();
    own.synchronize();
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kLength, 2));
    meet(world, "end");
  });
}

TEST_F(StreamEnds, LetGoOfAPlanWhosePreparationWasLate) {
  // Tensors of one place on the GPU.
  constexpr std::size_t kPlace = 1 << 18;
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const auto make = [&] {
      return tensor_of(world, own_gpu(world), std::vector<float>(kPlace, 1));
    };
    const void* place = nullptr;
    {
      const Tensor tensor = make();
      place = tensor.data();
      OwnStream own(world, gpu_of(world), 1, 1);
      Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
      if (world.rank() == 0) {
        EXPECT_EQ(plan.start(own.get(), Deadline::after(milliseconds(20))).code(), Code::timeout);
      }
      meet(world, "late");
    }
    EXPECT_EQ(make().data(), place) << "the plan's tensor is still held";
    meet(world, "end");
  });
}

TEST_F(StreamEnds, LetStreamsGoOnWhenARankLeaves) {
  std::barrier<> survivors(2);
  run(3, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    OwnStream own(world, gpu_of(world), kLength, 1);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    prepare(world, plan, own);
    if (world.rank() == 2) {
      EXPECT_OK_STATUS(world.leave());
      EXPECT_EQ(outcome_of(plan), number(Code::closed));
      EXPECT_EQ(plan.start(own.get()).code(), Code::closed);
      return;
    }
    Status status;
    const auto until = Clock::now() + seconds(20);
    while (status.ok() && Clock::now() < until) {
      status = plan.start(own.get());
      own.synchronize();
    }
    EXPECT_TRUE(tells(status, Code::peer_left, {"rank 2"}));
    EXPECT_NE(outcome_of(plan), 0U);
    survivors.arrive_and_wait();
  });
}

TEST_F(StreamEnds, AreToldByARankThatDropsThePlan) {
  for (const std::string dropped : {"plan", "group"})
    run(2, [&](World& world) {
      std::optional group(Collectives::open(world));
      const Tensor tensor = ones(world);
      OwnStream own(world, gpu_of(world), kLength, 1);
      Gate gate;
      std::optional plan(group->plan(all_reduce(tensor, Reduction::sum)));
      prepare(world, *plan, own);
      if (world.rank() == 1) gate.hold(own);
      plan->start(own.get()).or_throw();
      meet(world, "started");
      if (world.rank() == 1) {
        if (dropped == "plan")
          plan.reset();
        else
          group.reset();
        gate.open();
        own.synchronize();
      } else {
        own.synchronize();
        EXPECT_EQ(outcome_of(*plan), number(Code::cancelled));
        EXPECT_TRUE(tells(plan->start(own.get()), Code::cancelled, {"rank 1 has"}));
        EXPECT_OK_STATUS(group->settle(Deadline::after(seconds(5))));
      }
      meet(world, "end");
    });
}

TEST_F(StreamEnds, NameTheRankThatHasDroppedThePlanBefore) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    OwnStream own(world, gpu_of(world), kLength, 1);
    std::optional plan(group.plan(all_reduce(tensor, Reduction::sum)));
    prepare(world, *plan, own);
    if (world.rank() == 1) plan.reset();
    meet(world, "dropped");
    if (world.rank() == 0) {
      plan->start(own.get()).or_throw();
      own.synchronize();
      EXPECT_EQ(outcome_of(*plan), number(Code::closed));
      EXPECT_TRUE(tells(plan->start(own.get()), Code::closed, {"rank 1 has destroyed the plan"}));
    }
    meet(world, "end");
  });
}

TEST_F(StreamEnds, KeepTensorsLentWhileAnothersGpuWorksOnThem) {
  // Rank 1's kernel works until it is set free.
  std::atomic<bool> is_free{false};
  std::atomic<int> begun{0};
  control()->add_twin("weft_reduce_f32_sum",
                      {.parameter_bytes = {sizeof(p2p::cuda::kernels::ReduceParameters)},
                       .run = [&](const stand_in::Launch& launch) {
                         ++begun;
                         for (int i = 0; launch.device == 1 && !is_free && i < 15000; ++i)
                           std::this_thread::sleep_for(milliseconds(1));
                       }});
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    OwnStream own(world, gpu_of(world), kLength, 1);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    is_free = true;
    prepare(world, plan, own);
    if (world.rank() == 0) is_free = false;
    meet(world, "held");
    const int before = begun;
    meet(world, "counted");
    plan.start(own.get(), Deadline::after(milliseconds(world.rank() == 0 ? 100 : 20000)))
        .or_throw();
    EXPECT_TRUE(soon([&] { return begun >= before + 2; }));
    if (world.rank() == 0) {
      own.synchronize();
      EXPECT_TRUE(tells(plan.start(own.get()), Code::timeout,
                        {"waited for rank 1", "rank 1 may still touch this rank's tensors"}));
      EXPECT_TRUE(
          tells(group.settle(Deadline::after(milliseconds(20))), Code::timeout, {"rank 1"}));
    }
    meet(world, "lent");
    is_free = true;
    EXPECT_OK_STATUS(group.settle(Deadline::after(seconds(5))));
    own.synchronize();
    EXPECT_EQ(outcome_of(plan), number(Code::timeout));
    meet(world, "end");
  });
}

TEST_F(StreamEnds, EndTheGroupWhereTheDriverFails) {
  for (const std::string function :
       {"cuLaunchHostFunc", "cuLaunchKernel", "cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2"})
    run(2, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor tensor = ones(world);
      OwnStream own(world, gpu_of(world), kLength, 1);
      Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
      prepare(world, plan, own);
      if (world.rank() == 0) {
        control()->refuse(function, 1, DriverStatus::unknown);
        EXPECT_TRUE(tells(plan.start(own.get()), Code::system, {"CUDA_ERROR_UNKNOWN"}));
        own.synchronize();
      }
      meet(world, "failed");
      if (world.rank() == 1) {
        Status status = plan.start(own.get());
        own.synchronize();
        if (status.ok()) status = plan.start(own.get());
        EXPECT_TRUE(tells(status, Code::system, {"rank 0's run on a stream"})) << function;
        EXPECT_EQ(outcome_of(plan), number(Code::system));
      }
      meet(world, "end");
    });
}

}  // namespace
}  // namespace weft::tests
