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

constexpr std::size_t kLength = 1000;

class StreamEnds : public StreamPlans {
 protected:
  static Tensor ones(World& world) {
    return tensor_of(world, own_gpu(world), std::vector<float>(kLength, 1));
  }
  /// Runs the plan once on both ranks.
  void prepare(World& world, Plan& plan, OwnStream& own) {
    plan.start(own.get()).or_throw();
    own.synchronize();
    EXPECT_EQ(*plan.outcome(), 0U);
    meet(world, "prepared");
  }
  static std::uint32_t number(Code code) { return static_cast<std::uint32_t>(code); }
};

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
      EXPECT_EQ(*plan.outcome(), number(Code::timeout));
      EXPECT_EQ(own.elements(0), std::vector<float>(kLength, 2)) << "nothing was combined";
    }
    meet(world, "late");
    EXPECT_TRUE(soon([&] { return *plan.outcome() == number(Code::timeout); }));
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
    plan.start(own.get(), Deadline::after(seconds(5))).or_throw();
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(*plan.outcome(), 0U);
    gate.open();
    own.synchronize();
    EXPECT_EQ(*plan.outcome(), 0U);
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
      EXPECT_TRUE(tells(plan.start(own.get(), Deadline::after(milliseconds(50))), Code::timeout,
                        {"for streams", "rank 1"}));
    }
    meet(world, "late");
    plan.start(own.get()).or_throw();
    own.synchronize();
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kLength, 2));
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
      EXPECT_EQ(*plan.outcome(), number(Code::closed));
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
    EXPECT_NE(*plan.outcome(), 0U);
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
        EXPECT_EQ(*plan->outcome(), number(Code::cancelled));
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
      EXPECT_EQ(*plan->outcome(), number(Code::closed));
      EXPECT_TRUE(tells(plan->start(own.get()), Code::closed, {"rank 1 has destroyed the plan"}));
    }
    meet(world, "end");
  });
}

TEST_F(StreamEnds, GiveWordsToTheNextPlanOnceNoRankWritesThem) {
  std::atomic<int> given_again{0};
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    OwnStream own(world, gpu_of(world), kLength, 1);
    std::optional<Plan> kept;
    const std::uint32_t* first = nullptr;
    for (int i = 0; i < 3; ++i) {
      Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
      plan.start(own.get()).or_throw();
      own.synchronize();
      meet(world, "run");
      if (i == 0) first = plan.outcome();
      if (i == 1) {
        EXPECT_NE(plan.outcome(), first) << "rank 0 may still write those of the first plan";
      }
      if (i == 2 && plan.outcome() == first) ++given_again;
      // Rank 1 drops each plan at once, rank 0 the first one later.
      if (i == 0 && world.rank() == 0) kept = std::move(plan);
      if (i == 1) kept.reset();
      plan = {};
      meet(world, "next");
    }
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kLength, 8));
    meet(world, "end");
  });
  // The first rank to do so may keep the other from it.
  EXPECT_GE(given_again, 1);
}

TEST_F(StreamEnds, KeepTensorsLentWhileAnothersGpuWorksOnThem) {
  // Rank 1's kernel works until it is set free.
  std::atomic<bool> is_free{false};
  std::atomic<int> begun{0};
  control()->add_twin("weft_reduce_f32_sum",
                      {.parameter_bytes = {sizeof(kernels::ReduceParameters)},
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
    EXPECT_EQ(*plan.outcome(), number(Code::timeout));
    meet(world, "end");
  });
}

/// Two plans of two ranks. Rank 1's kernel of the second one works until it is set free.
class TwoPlans : public StreamEnds {
 protected:
  /// Calls `end` on rank 0 while both have the second one under way.
  void end_beside(bool drops,
                  const std::function<void(World&, Collectives&, Plan&, Plan&, OwnStream&)>& end) {
    std::atomic<bool> is_free{true};
    std::atomic<int> begun{0};
    control()->add_twin("weft_reduce_f32_sum",
                        {.parameter_bytes = {sizeof(kernels::ReduceParameters)},
                         .run = [&](const stand_in::Launch& launch) {
                           ++begun;
                           for (int i = 0; launch.device == 1 && !is_free && i < 15000; ++i)
                             std::this_thread::sleep_for(milliseconds(1));
                         }});
    run(2, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor tensor = ones(world), other = ones(world);
      OwnStream own(world, gpu_of(world), kLength, 1), beside(world, gpu_of(world), kLength, 1);
      std::optional first(group.plan(all_reduce(other, Reduction::max)));
      Plan second = group.plan(all_reduce(tensor, Reduction::sum));
      prepare(world, *first, beside);
      prepare(world, second, own);
      if (world.rank() == 1 && drops) first.reset();
      if (world.rank() == 0) is_free = false;
      meet(world, "held");
      const int before = begun;
      meet(world, "counted");
      second.start(own.get()).or_throw();
      EXPECT_TRUE(soon([&] { return begun >= before + 2; }));
      if (world.rank() == 0) {
        end(world, group, *first, second, beside);
        own.synchronize();
        EXPECT_TRUE(
            tells(group.settle(Deadline::after(milliseconds(20))), Code::timeout, {"rank 1"}));
      }
      meet(world, "lent");
      is_free = true;
      own.synchronize();
      EXPECT_OK_STATUS(group.settle(Deadline::after(seconds(5))));
      meet(world, "end");
    });
  }
};

TEST_F(TwoPlans, StayLentWhenTheOtherIsClosedElsewhere) {
  end_beside(true, [&](World&, Collectives&, Plan& first, Plan& second, OwnStream& beside) {
    first.start(beside.get()).or_throw();
    beside.synchronize();
    EXPECT_EQ(*first.outcome(), number(Code::closed));
    EXPECT_TRUE(tells(second.start(beside.get()), Code::closed,
                      {"rank 1 has destroyed the plan",
                       "rank 1 may still touch this rank's tensors"}));
  });
}

TEST_F(TwoPlans, StayLentFromTheFailureOn) {
  end_beside(false, [&](World&, Collectives& group, Plan& first, Plan&, OwnStream& beside) {
    control()->refuse("cuLaunchHostFunc", 1, DriverStatus::unknown);
    EXPECT_EQ(first.start(beside.get()).code(), Code::system);
    // Before the progress thread has looked.
    EXPECT_EQ(group.settle(Deadline::after(milliseconds(0))).code(), Code::timeout);
    beside.synchronize();
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
        EXPECT_EQ(*plan.outcome(), number(Code::system));
      }
      meet(world, "end");
    });
}

}  // namespace
}  // namespace weft::tests
