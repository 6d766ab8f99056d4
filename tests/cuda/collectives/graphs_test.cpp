// Plans whose runs are parts of captured graphs.
#include <array>
#include <optional>

#include "tests/cuda/collectives/stream_plans.hpp"

namespace weft::tests {
namespace {

struct GraphedType {
  DType dtype;
  Reduction reduction;
};
constexpr std::array kGraphedTypes{GraphedType{DType::f32, Reduction::sum},
                                   GraphedType{DType::f16, Reduction::avg},
                                   GraphedType{DType::i32, Reduction::prod}};
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kReplays = 20;
#else
constexpr std::uint64_t kReplays = 100;
#endif

class StreamGraphs : public StreamPlans, public testing::WithParamInterface<int> {};

TEST_P(StreamGraphs, GiveTheBitsOfRunsOneByOneAtEachReplay) {
  const int ranks = GetParam();
  run(ranks, [&](World& world) {
    auto group = Collectives::open(world);
    for (const GraphedType& type : kGraphedTypes) {
      // Each call works on what the one before has made.
      PlanRig graphed(world, gpu_of(world), type.dtype, 100 * ranks);
      PlanRig eager(world, gpu_of(world), type.dtype, 100 * ranks);
      const auto plans_of = [&](PlanRig& rig) {
        std::vector<Plan> plans;
        for (const Call& call :
             calls_on(rig.in(), rig.out(), rig.both(), type.reduction, ranks, world.rank()))
          plans.push_back(group.plan(call));
        return plans;
      };
      std::vector<Plan> in_graph = plans_of(graphed), one_by_one = plans_of(eager);
      const auto step = [](PlanRig& rig, std::vector<Plan>& plans) {
        rig.bring();
        for (Plan& plan : plans) plan.start(rig.stream()).or_throw();
        rig.take();
      };
      for (Plan& plan : one_by_one) {
        plan.start(eager.stream()).or_throw();  // which prepares it
        eager.synchronize();
        meet(world);
      }
      {
        const Captured graph(graphed, [&] { step(graphed, in_graph); });
        meet(world);
        for (std::uint64_t replay = 0; replay < kReplays; ++replay) {
          const auto seed = 100 * replay + static_cast<std::uint64_t>(world.rank());
          graphed.set(seed);
          eager.set(seed);
          graph.launch(graphed.handle());
          step(eager, one_by_one);
          graphed.synchronize();
          eager.synchronize();
          ASSERT_EQ(graphed.taken(), eager.taken()) << name(type.dtype) << ", replay " << replay;
        }
        for (Plan& plan : in_graph) EXPECT_EQ(outcome_of(plan), 0U);
        meet(world);
      }
    }
    EXPECT_EQ(group.staged_bytes(), 0U);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, StreamGraphs, testing::Values(2, 3),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_F(StreamPlans, OfAGraphArePreparedByTheirCapture) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(500, 1));
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    PlanRig rig(world, gpu_of(world), DType::f32, 500);
    {
      const Captured graph(rig, [&] { plan.start(rig.stream()).or_throw(); });
      EXPECT_EQ(elements_of(world, tensor), std::vector<float>(500, 1)) << "nothing runs yet";
      meet(world);
      for (int i = 0; i < 3; ++i) graph.launch(rig.handle());
      rig.synchronize();
      EXPECT_EQ(elements_of(world, tensor), std::vector<float>(500, 8));
    }
    meet(world, "end");
  });
}

TEST_F(StreamPlans, OfAGraphAreReplayedInVainOnceTheyAreGone) {
  for (const std::string gone : {"plan", "group"})
    run(2, [&](World& world) {
      std::optional group(Collectives::open(world));
      const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(500, 1));
      std::optional plan(group->plan(all_reduce(tensor, Reduction::sum)));
      PlanRig rig(world, gpu_of(world), DType::f32, 500);
      const std::uint32_t* outcome = nullptr;
      {
        const Captured graph(rig, [&] { plan->start(rig.stream()).or_throw(); });
        meet(world);
        graph.launch(rig.handle());
        rig.synchronize();
        outcome = plan->outcome();
        EXPECT_EQ(*outcome, 0U);
        meet(world, "run");
        if (gone == "plan")
          plan.reset();
        else
          group.reset();
        EXPECT_EQ(*outcome, static_cast<std::uint32_t>(Code::closed));
        for (int i = 0; i < 3; ++i) graph.launch(rig.handle());
        rig.synchronize();
        EXPECT_EQ(elements_of(world, tensor), std::vector<float>(500, 2)) << gone;
      }
      meet(world, "end");
    });
}

TEST_F(StreamPlans, OfAGraphAreReplayedInVainOnceTheWorldIsGone) {
  // Graphs and streams that outlive their ranks, by rank.
  struct Left {
    StreamHandle stream = nullptr;
    GraphExec graph = nullptr;
    const std::uint32_t* outcome = nullptr;
  };
  std::array<Left, 2> left;
  const Driver& driver = **load_driver();
  {
    const OwnContext first(driver, 0), second(driver, 1);
    run(2, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(500, 1));
      Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
      Left& mine = left[static_cast<std::size_t>(world.rank())];
      const OwnContext current(driver, gpu_of(world));
      EXPECT_OK(driver.create_stream(&mine.stream, kStreamNonBlocking));
      EXPECT_OK(driver.begin_capture(mine.stream, CaptureMode::thread_local_));
      plan.start(Stream::cuda(mine.stream)).or_throw();
      Graph graph = nullptr;
      EXPECT_OK(driver.end_capture(mine.stream, &graph));
      meet(world);
      EXPECT_OK(driver.instantiate_graph(&mine.graph, graph, 0));
      EXPECT_OK(driver.destroy_graph(graph));
      mine.outcome = plan.outcome();
      meet(world, "captured");
    });
    for (Left& mine : left) {
      EXPECT_EQ(*mine.outcome, static_cast<std::uint32_t>(Code::closed));
      for (int i = 0; i < 2; ++i) EXPECT_OK(driver.launch_graph(mine.graph, mine.stream));
      EXPECT_OK(driver.synchronize_stream(mine.stream));
      EXPECT_OK(driver.destroy_graph_exec(mine.graph));
      EXPECT_OK(driver.destroy_stream(mine.stream));
    }
  }
  // The next world lets go of what they kept, or the stand-in complains.
  run(1, [](World&) {});
}

}  // namespace
}  // namespace weft::tests
