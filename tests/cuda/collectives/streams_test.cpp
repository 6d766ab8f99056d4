// Plans that streams run: the ranks' streams meet, and no thread waits.
#include <array>
#include <cstdlib>

#include "p2p/transport/cuda/kernels/meet_kernel.hpp"
#include "tests/cuda/collectives/stream_plans.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

struct StreamedType {
  DType dtype;
  Reduction reduction;
};
constexpr std::array kStreamedTypes{
    StreamedType{DType::f32, Reduction::sum}, StreamedType{DType::bf16, Reduction::avg},
    StreamedType{DType::i64, Reduction::prod}, StreamedType{DType::u8, Reduction::max}};

TEST_F(StreamPlans, GiveTheBitsOfHostMemoryForEveryKind) {
  for (const int ranks : {2, 3})
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      for (const StreamedType& type : kStreamedTypes) {
        PlanRig rig(world, gpu_of(world), type.dtype, 300 * ranks);
        const auto calls =
            calls_on(rig.in(), rig.out(), rig.both(), type.reduction, ranks, world.rank());
        for (std::size_t nth = 0; nth < calls.size(); ++nth) {
          Plan plan = group.plan(calls[nth]);
          for (std::uint64_t step = 0; step < 4; ++step) {
            rig.set(100 * step + static_cast<std::uint64_t>(world.rank()));
            const RawBytes wanted = rig.expected(group, type.reduction, nth);
            rig.bring();
            plan.start(rig.stream()).or_throw();
            rig.take();
            rig.synchronize();
            EXPECT_EQ(rig.taken(), wanted)
                << "call " << nth << " of " << name(type.dtype) << ", step " << step << ", rank "
                << world.rank() << " of " << ranks;
            EXPECT_EQ(outcome_of(plan), 0U);
          }
          meet(world);
        }
      }
      EXPECT_EQ(group.staged_bytes(), 0U);
    });
}

TEST_F(StreamPlans, RunAheadOfTheirStreamsInOrder) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(1000, 1));
    OwnStream own(world, gpu_of(world), 1000, 1);
    Gate gate;
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    plan.start(own.get()).or_throw();
    own.synchronize();
    meet(world);
    gate.hold(own);
    for (int i = 0; i < 10; ++i) plan.start(own.get()).or_throw();
    own.read(0, tensor);
    gate.open();
    own.synchronize();
    EXPECT_EQ(own.elements(0), std::vector<float>(1000, 2048));
    EXPECT_EQ(outcome_of(plan), 0U);
    meet(world, "end");
  });
}

TEST_F(StreamPlans, DoSoHoweverLateTheStreamsAre) {
  for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(1)}),
        std::vector<std::string>{});
    const int ranks = 2 + static_cast<int>(seed % 3);
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      PlanRig rig(world, gpu_of(world), DType::f32, 60 * ranks);
      const auto calls =
          calls_on(rig.in(), rig.out(), rig.both(), Reduction::sum, ranks, world.rank());
      const std::size_t nth = seed % calls.size();
      Plan plan = group.plan(calls[nth]);
      for (std::uint64_t step = 0; step < 3; ++step) {
        rig.set(100 * seed + 10 * step + static_cast<std::uint64_t>(world.rank()));
        const RawBytes wanted = rig.expected(group, Reduction::sum, nth);
        rig.bring();
        plan.start(rig.stream()).or_throw();
        rig.take();
        rig.synchronize();
        EXPECT_EQ(rig.taken(), wanted) << "seed " << seed << ", step " << step;
      }
      meet(world, "end");
    });
  }
}

TEST_F(StreamPlans, ShowThatAWordWasNotReset) {
  // A planted defect: runs after the first go ahead of the other rank.
  control()->add_twin("weft_meet", {.parameter_bytes = {sizeof(p2p::cuda::kernels::MeetParameters)},
                                    .run = [](const stand_in::Launch& launched) {
                                      const auto launch =
                                          launched.parameter<p2p::cuda::kernels::MeetParameters>(0);
                                      for (std::uint32_t i = 0; i < launch.count; ++i)
                                        if (launch.partners[i] != nullptr)
                                          p2p::cuda::kernels::store_word(launch.partners[i], 1);
                                    }});
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const float mine = world.rank() == 0 ? 1 : 2;
    const Tensor in = tensor_of(world, own_gpu(world), std::vector<float>(1000, mine));
    const Tensor out = tensor_of(world, own_gpu(world), std::vector<float>(1000, 0));
    OwnStream own(world, gpu_of(world), 1000, 2);
    Gate gate;
    Plan plan = group.plan(all_reduce(in, out, Reduction::sum));
    plan.start(own.get()).or_throw();
    own.synchronize();
    meet(world);
    // Rank 1's stream brings its next input late.
    if (world.rank() == 1) gate.hold(own);
    own.fill(1, in, 10);
    plan.start(own.get()).or_throw();
    if (world.rank() == 0) {
      own.read(0, out);
      own.synchronize();
      std::vector<float> wanted(1000);
      for (std::size_t i = 0; i < 1000; ++i) wanted[i] = 2 * (10 + static_cast<float>(i));
      EXPECT_NE(own.elements(0), wanted) << "the test does not see a word that is not reset";
    }
    meet(world, "seen");
    gate.open();
    own.synchronize();
    meet(world, "end");
  });
}

TEST_F(StreamPlans, HoldTheThreadWhereTensorsLieInHostMemory) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const bool is_on_gpu = world.rank() == 0;
    const Tensor tensor =
        tensor_of(world, is_on_gpu ? own_gpu(world) : Memory(), std::vector<float>(1000, 1));
    OwnStream own(world, gpu_of(world), 1000, 1);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    for (int i = 0; i < 2; ++i) plan.start(own.get()).or_throw();
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(1000, 4));
    EXPECT_EQ(plan.outcome(), nullptr);
    EXPECT_OK((**load_driver()).begin_capture(own.handle(), CaptureMode::thread_local_));
    EXPECT_TRUE(tells(
        plan.start(own.get()), Code::bad_argument,
        {"captures a graph", is_on_gpu ? "does not offer its GPU" : "tensors lie in host memory"}));
    Graph graph = nullptr;
    EXPECT_OK((**load_driver()).end_capture(own.handle(), &graph));
    EXPECT_OK((**load_driver()).destroy_graph(graph));
    meet(world, "end");
  });
}

TEST_F(StreamPlans, AgreeWhereOneRefusesForGoodAndOneForNow) {
  // Fills a chunk, so that pages that prove the paths need another one.
  constexpr std::int64_t kFull = 1 << 19;
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const bool is_on_gpu = world.rank() == 1;
    const Tensor tensor =
        tensor_of(world, is_on_gpu ? own_gpu(world) : Memory(), std::vector<float>(kFull, 1));
    OwnStream own(world, gpu_of(world), 1, 1);
    const auto refused = [&](const auto& call) {
      const std::uint64_t before = control()->calls("cuMemCreate");
      if (is_on_gpu) control()->refuse("cuMemCreate", 1, DriverStatus::out_of_memory);
      call();
      if (is_on_gpu) {
        EXPECT_GT(control()->calls("cuMemCreate"), before);
      }
      meet(world);
    };
    Plan plan;
    refused([&] { plan = group.plan(all_reduce(tensor, Reduction::max)); });
    refused([&] { EXPECT_OK_STATUS(plan.start(own.get())); });
    for (int i = 0; i < 3; ++i) EXPECT_OK_STATUS(plan.start(own.get()));
    EXPECT_EQ(plan.outcome(), nullptr);
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(kFull, 1));
    meet(world, "end");
  });
}

TEST_F(StreamPlans, SayInACaptureWhyTheyAreNoneOfStreams) {
  const auto refused = [&](World& world, Collectives& group, const Call& call,
                           const std::string& why) {
    OwnStream own(world, gpu_of(world), 1, 1);
    Plan plan = group.plan(call);
    EXPECT_OK((**load_driver()).begin_capture(own.handle(), CaptureMode::thread_local_));
    EXPECT_TRUE(tells(plan.start(own.get()), Code::bad_argument, {why}));
    Graph graph = nullptr;
    EXPECT_OK((**load_driver()).end_capture(own.handle(), &graph));
    EXPECT_OK((**load_driver()).destroy_graph(graph));
  };
  for (const int ranks : {1, 2})
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(100, 1));
      const Tensor empty = world.allocate(DType::f32, {0}, own_gpu(world));
      refused(world, group, scan(tensor, tensor, Reduction::sum),
              ranks == 1 ? "the group has one rank" : "GPUs carry out no scan");
      refused(world, group, all_reduce(empty, Reduction::sum),
              ranks == 1 ? "the group has one rank" : "the call's tensors are empty");
      meet(world, "end");
    });
}

TEST_F(StreamPlans, HoldTheThreadWhereLaunchesBlock) {
  ASSERT_EQ(::setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(1000, 1));
    OwnStream own(world, gpu_of(world), 1000, 1);
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    for (int i = 0; i < 2; ++i) plan.start(own.get()).or_throw();
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(1000, 4));
    EXPECT_EQ(plan.outcome(), nullptr);
    EXPECT_EQ(group.staged_bytes(), 0U) << "the GPUs carry it out all the same";
    meet(world, "end");
  });
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
  EXPECT_EQ(control()->calls("cuStreamWaitValue32_v2"), 0U);
}

TEST_F(StreamPlans, RefuseBadInput) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(1000, 1));
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    OwnStream other(world, 1 - gpu_of(world), 1000, 1);
    EXPECT_TRUE(tells(plan.start(other.get()), Code::bad_argument, {"the stream is of GPU"}));
    EXPECT_TRUE(tells(plan.start(Stream::cuda(&group)), Code::bad_argument, {"no stream"}));
    EXPECT_EQ(Plan().start(other.get()).code(), Code::bad_argument);
    plan.start().or_throw();
    OwnStream own(world, gpu_of(world), 1000, 1);
    EXPECT_TRUE(tells(plan.start(own.get()), Code::bad_argument, {"under way already"}));
    plan.wait().or_throw();
    plan.start(Stream()).or_throw();
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(1000, 4)) << "the thread has waited";
    meet(world, "end");
  });
}

TEST_F(StreamPlans, AreNotMixedWithCallsOnTheThread) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(1000, 1));
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    OwnStream own(world, gpu_of(world), 1000, 1);
    const Status status = world.rank() == 0 ? plan.start(own.get()) : plan.run();
    EXPECT_TRUE(tells(status, Code::mismatch, {"all_reduce(f32[1000], sum), for streams"}));
    meet(world, "end");
  });
}

TEST_F(StreamPlans, CallNothingThatWaitsInTheSteadyState) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(1000, 1));
    Plan plan = group.plan(all_reduce(tensor, Reduction::max));
    OwnStream own(world, gpu_of(world), 1000, 1);
    const auto turn = [&] { plan.start(own.get()).or_throw(); };
    if (world.rank() == 0)
      expect_steady(*control(), 0, turn);
    else
      for (int i = 0; i < 14; ++i) turn();
    meet(world, "counted");
    own.synchronize();
    EXPECT_EQ(elements_of(world, tensor), std::vector<float>(1000, 1));
    meet(world, "end");
  });
}

}  // namespace
}  // namespace weft::tests
