// Plans of collectives on tensors on GPUs, run again and again, several under way; and their copies
// while the deadline passes, the plan, a rank or the GPU goes.
#include "tests/cuda/slots/fabrics.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

void set(World& world, const Tensor& tensor, float first) {
  auto values = counted(static_cast<std::size_t>(tensor.shape().elements()), first);
  world.copy(Tensor::wrap(values.data(), DType::f32, tensor.shape()), tensor);
}

class GpuPlans : public OnGpus, public testing::WithParamInterface<Over> {
 protected:
  stand_in::Options options() const override { return options_for(GetParam()); }
};

TEST_P(GpuPlans, GiveAtEachRunWhatCallsOnHostMemoryGive) {
  run_over(GetParam(), [](World& world) {
    auto group = Collectives::open(world);
    const ReduceOp sum = Reduction::sum;
    struct Place {
      Tensor whole, other, half;
    };
    const auto place = [&](Memory memory) {
      return Place{world.allocate(DType::f32, {6000}, memory),
                   world.allocate(DType::f32, {6000}, memory),
                   world.allocate(DType::f32, {3000}, memory)};
    };
    const auto calls = [&](const Place& at) {
      return std::vector<Call>{
          all_reduce(at.whole, sum),
          all_reduce(at.whole, at.other, sum),
          all_reduce(at.whole.part(0, {10}), sum),
          broadcast(at.whole, 1),
          reduce(at.whole, at.other, sum, 0),
          reduce_scatter(at.whole, at.half, sum),
          reduce_scatter(at.whole, at.whole.part(3000 * world.rank(), {3000}), sum),
          all_gather(at.half, at.whole),
          all_gather(at.whole.part(3000 * world.rank(), {3000}), at.whole),
          scatter(at.whole, at.half, 1),
          all_to_all(at.whole, at.other)};
    };
    const Place host = place({});
    // Of one rank alone, or of both.
    for (const Memory memory : {Memory::gpu(), world.rank() == 0 ? Memory::gpu(1) : Memory()}) {
      const Place gpu = place(memory);
      for (std::size_t kind = 0; kind < calls(host).size(); ++kind) {
        Plan plan = group.plan(calls(gpu)[kind]);
        for (int run = 0; run < 3; ++run) {
          const float first = static_cast<float>(100 * run + 10 * world.rank());
          for (const Place& at : {host, gpu}) {
            set(world, at.whole, first);
            set(world, at.other, first + 1);
            set(world, at.half, first + 2);
          }
          group.run(calls(host)[kind]).or_throw();
          plan.run().or_throw();
          for (const auto member : {&Place::whole, &Place::other, &Place::half})
            EXPECT_EQ(seen_by_application(world, gpu.*member), elements_of(world, host.*member))
                << "call " << kind << ", run " << run;
        }
      }
    }
    meet(world);
  });
}

TEST_P(GpuPlans, AreUnderWayTogether) {
  run_over(GetParam(), [](World& world) {
    auto group = Collectives::open(world);
    std::vector<Tensor> tensors;
    std::vector<Plan> plans;
    for (int i = 0; i < 4; ++i) {
      tensors.push_back(world.allocate(DType::f32, {5000}, i == 2 ? Memory() : Memory::gpu()));
      plans.push_back(group.plan(all_reduce(tensors.back(), Reduction::sum)));
    }
    for (int run = 0; run < 5; ++run) {
      for (std::size_t i = 0; i < 4; ++i) {
        set(world, tensors[i], static_cast<float>(i));
        plans[i].start().or_throw();
      }
      // The GPUs may have carried it out by now; copies take longer.
      if (GetParam() != Over::shm) {
        EXPECT_EQ(plans[0].start().code(), Code::bad_argument) << "it is under way";
      }
      // In their order in every other run, from the last one in the others.
      for (std::size_t nth = 0; nth < 4; ++nth) {
        const std::size_t i = run % 2 == 0 ? nth : 3 - nth;
        (void)plans[i].test();
        plans[i].wait().or_throw();
        EXPECT_TRUE(plans[i].test());
        auto wanted = counted(5000, static_cast<float>(i));
        for (float& value : wanted) value *= 2;
        EXPECT_EQ(seen_by_application(world, tensors[i]), wanted);
      }
    }
    EXPECT_EQ(group.staged_bytes(), GetParam() == Over::shm ? 0U : 5 * 3 * 2 * 20000U);
    meet(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, GpuPlans, testing::ValuesIn(some_fabrics()),
                         [](const auto& info) { return name_of(info.param); });

/// Copies take tens of milliseconds.
class PlansUnderWay : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(1)); }
};

TEST_F(PlansUnderWay, OutliveTheirDeadlines) {
  run_on(1, [](World& world) {
    auto group = Collectives::open(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(100));
    const Tensor out = tensor_of(world, Memory::gpu(0), std::vector<float>(100, -1));
    Plan plan = group.plan(all_reduce(gpu, out, Reduction::sum));
    plan.start().or_throw();
    EXPECT_TRUE(tells(plan.wait(at_once()), Code::timeout,
                      {"call 1 of the group", "GPU 0 has not copied this rank's input"}));
    EXPECT_TRUE(
        soon([&] { return plan.wait(at_once()).text().find("output") != std::string::npos; }));
    EXPECT_EQ(plan.start().code(), Code::bad_argument) << "it is under way";
    plan.wait().or_throw();
    EXPECT_EQ(seen_by_application(world, out), counted(100));
    EXPECT_EQ(group.staged_bytes(), 800U);
  });
}

TEST_F(PlansUnderWay, LeaveTheGroupWholeWhereTheGpuBeginsNoCopy) {
  run_on(1, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(100));
    Plan plan = group.plan(all_reduce(gpu, Reduction::sum));
    for (const char* function : {"cuCtxPushCurrent_v2", "cuMemcpyAsync", "cuEventRecord"}) {
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(plan.start(), Code::system, {"GPU 0", "CUDA_ERROR_UNKNOWN"})) << function;
      EXPECT_EQ(plan.wait().code(), Code::system) << function;
      // The second is the output's.
      control()->refuse(function, 2, DriverStatus::unknown);
      EXPECT_TRUE(tells(plan.run(), Code::system, {"GPU 0", "CUDA_ERROR_UNKNOWN"})) << function;
      plan.run().or_throw();
    }
    EXPECT_EQ(elements_of(world, gpu), counted(100));
  });
}

TEST_F(PlansUnderWay, CostTheirCopiesAloneInTheSteadyState) {
  control()->restart({});
  run_on(1, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(1000));
    Plan plan = group.plan(all_reduce(gpu, Reduction::max));
    expect_steady(*control(), 2, [&] { plan.run().or_throw(); });
  });
}

TEST_F(PlansUnderWay, EndTheGroupWhereTheInputDoesNotCome) {
  run_on(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Memory mine = world.rank() == 0 ? Memory::gpu(0) : Memory();
    const Tensor tensor = tensor_of(world, mine, counted(100));
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    if (world.rank() == 0) {
      plan.start().or_throw();
      control()->lose(0, DriverStatus::ecc_uncorrectable);
      EXPECT_TRUE(tells(plan.wait(), Code::system, {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE"}));
      control()->lose(0, DriverStatus::success);
    } else {
      EXPECT_TRUE(tells(plan.run(), Code::system, {"rank 0's input", "GPU 0"}));
    }
    EXPECT_EQ(plan.start().code(), Code::system) << "the group has ended";
    meet(world);
    // A GPU that was lost does not come back: what was queued there has time to vanish.
    std::this_thread::sleep_for(2 * options().delay);
  });
}

TEST_F(PlansUnderWay, LeaveTheGroupWholeWhereTheOutputDoesNotGo) {
  run_on(1, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor host = tensor_of(world, {}, counted(100));
    const Tensor gpu = tensor_of(world, Memory::gpu(0), std::vector<float>(100));
    Plan plan = group.plan(all_reduce(host, gpu, Reduction::sum));
    control()->refuse("cuEventQuery", 1, DriverStatus::unknown);
    EXPECT_TRUE(tells(plan.run(), Code::system, {"GPU 0", "CUDA_ERROR_UNKNOWN"}));
    plan.start().or_throw();
    control()->lose(0, DriverStatus::ecc_uncorrectable);
    EXPECT_TRUE(tells(plan.wait(), Code::system, {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE"}));
    control()->lose(0, DriverStatus::success);
    plan.run().or_throw();
    EXPECT_EQ(elements_of(world, gpu), counted(100));
  });
}

TEST_F(PlansUnderWay, LetGoOfTheirTensors) {
  for (const bool brings : {true, false})
    run_on(1, [&](World& world) {
      {
        auto group = Collectives::open(world);
        const Tensor host = tensor_of(world, {}, counted(100));
        const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(100));
        Plan plan = group.plan(brings ? all_reduce(gpu, host, Reduction::sum)
                                      : all_reduce(host, gpu, Reduction::sum));
        plan.start().or_throw();
        EXPECT_EQ(plan.wait(at_once()).code(), Code::timeout);
        plan = {};
        // A plan whose part of the work is done may go; another ends its group.
        EXPECT_EQ(group.run(barrier()).code(), brings ? Code::cancelled : Code::ok);
      }
      const Tensor host = world.allocate(DType::f32, {8});
      EXPECT_TRUE(soon([&] {
        world.copy(host, host);
        return world.report().arenas[4].used_bytes == 0;
      }));
    });
}

#if defined(WEFT_TEST_SIMULATION)
TEST_F(PlansUnderWay, EndWithTheirPath) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(0)});
    SimJob job(2, {.seed = seed}, simulated_settings().with(Setting::arena_chunk, "2m"));
    const SimOutcome outcome = job.run([&](World& world) {
      auto group = Collectives::open(world);
      // A rank that is killed gives nothing back, so that one uses no GPU.
      const Memory mine = world.rank() == 1 && seed % 3 != 2 ? Memory() : Memory::gpu(world.rank());
      const Tensor tensor = tensor_of(world, mine, std::vector<float>(100, 1));
      Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
      if (world.rank() == 1) {
        plan.run().or_throw();
        EXPECT_EQ(elements_of(world, tensor), std::vector<float>(100, 2));
        if (seed % 3 == 0) job.kill(world);
        plan.start().or_throw();
        if (seed % 3 == 1) job.kill(world);
        job.disconnect(0, 1);
      }
      Status next;
      for (int i = 0; i < 10 && next.ok(); ++i) {
        // Rank 1 has begun one already.
        if (world.rank() == 0 || i > 0) next = plan.start();
        if (next.ok()) next = plan.wait();
      }
      EXPECT_FALSE(next.ok()) << "seed " << seed;
      EXPECT_NE(next.code(), Code::timeout) << "seed " << seed << ": " << next.text();
    });
    EXPECT_EQ(outcome.failures, std::vector<std::string>{}) << outcome.text;
  }
}
#endif

}  // namespace
}  // namespace weft::tests
