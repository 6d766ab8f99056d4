// Plans on streams beside one another: two of which one ends, and one after another; and replays
// of a graph that other ranks leave alone.
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "tests/cuda/collectives/stream_plans.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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
  EXPECT_EQ(given_again, 2);
}

TEST_F(StreamEnds, GiveTheSameWordsToPlansThatComeOneAfterAnother) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = ones(world);
    OwnStream own(world, gpu_of(world), kLength, 1);
    const std::uint32_t* first = nullptr;
    for (int i = 0; i < 6; ++i) {
      // The ranks take turns to be the first that prepares.
      if (i % 2 == world.rank()) std::this_thread::sleep_for(milliseconds(20));
      Plan plan = group.plan(all_reduce(tensor, Reduction::max));
      plan.start(own.get()).or_throw();
      own.synchronize();
      if (i == 0) first = plan.outcome();
      EXPECT_EQ(plan.outcome(), first) << "plan " << i;
      meet(world, "run");
      plan = {};
      meet(world, "next");
    }
    meet(world, "end");
  });
}

/// Two plans of two ranks. Rank 1's kernel of the second one works until it is set free.
class TwoPlans : public StreamEnds {
 protected:
  /// Calls `end` on rank 0 while both have the second one under way.
  void end_beside(
      bool drops,
      const std::function<void(Collectives&, Plan&, Plan&, OwnStream&, OwnStream&)>& end) {
    std::atomic<bool> is_free{true};
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
        end(group, *first, second, own, beside);
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
  end_beside(true, [&](Collectives&, Plan& first, Plan& second, OwnStream& own, OwnStream& beside) {
    first.start(beside.get()).or_throw();
    beside.synchronize();
    EXPECT_EQ(outcome_of(first), number(Code::closed));
    own.synchronize();  // from here on it is rank 1's GPU alone that works
    EXPECT_TRUE(
        tells(second.start(beside.get()), Code::closed,
              {"rank 1 has destroyed the plan", "rank 1 may still touch this rank's tensors"}));
  });
}

TEST_F(TwoPlans, StayLentFromTheFailureOn) {
  end_beside(false, [&](Collectives& group, Plan& first, Plan&, OwnStream&, OwnStream& beside) {
    control()->refuse("cuLaunchHostFunc", 1, DriverStatus::unknown);
    EXPECT_EQ(first.start(beside.get()).code(), Code::system);
    // Before the progress thread has looked.
    EXPECT_EQ(group.settle(Deadline::after(milliseconds(0))).code(), Code::timeout);
    beside.synchronize();
  });
}

TEST_F(StreamEnds, LetReplaysGoOnWhenARankIsLateOrLeavesThePlan) {
  for (const Code code : {Code::timeout, Code::closed})
    run(2, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor tensor = ones(world);
      PlanRig rig(world, gpu_of(world), DType::f32, kLength);
      std::optional plan(group.plan(all_reduce(tensor, Reduction::sum)));
      {
        const Deadline late = Deadline::after(seconds(2));
        const Captured graph(rig, [&] {
          plan->start(rig.stream(), code == Code::timeout && world.rank() == 0 ? late : Deadline())
              .or_throw();
        });
        meet(world, "captured");
        graph.launch(rig.handle());
        rig.synchronize();
        EXPECT_EQ(outcome_of(*plan), 0U);
        meet(world, "run");
        if (world.rank() == 1 && code == Code::closed) plan.reset();
        meet(world, "left");
        if (world.rank() == 0) {
          graph.launch(rig.handle());
          rig.synchronize();
          EXPECT_EQ(outcome_of(*plan), number(code));
          EXPECT_TRUE(tells(plan->start(rig.stream()), code, {"rank 1"}));
          // It does nothing from now on.
          graph.launch(rig.handle());
          rig.synchronize();
        }
        meet(world, "replayed");
        EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kLength, 2));
      }
      meet(world, "end");
    });
}

}  // namespace
}  // namespace weft::tests
