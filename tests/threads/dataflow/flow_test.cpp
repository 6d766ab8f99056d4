// WEFT_CHECK=flow and the executor: it reports an edge without credits that needs some, and no
// other.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "runtime/dataflow/execute/step_runner.hpp"
#include "tests/support/soon.hpp"
#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

constexpr std::array kFabrics{"shm", "tcp"};

Config checked(const char* fabric) {
  return tests::settings().with(Setting::fabric, fabric).with(Setting::check, "flow");
}

/// A rank's share of a plan of which the test may have changed what the executor would not.
class Share {
 public:
  Share(World& world, Plan plan, const Kernels& kernels)
      : plan_(std::move(plan)),
        program_(make_program(plan_, world.rank(), kernels, SentMemory::arena)),
        memory_(world, program_, SentMemory::arena),
        neighbours_(world, plan_, "share") {
    const std::unique_ptr<Way> way = make_slot_way();
    ends_.sends.resize(plan_.edges.size());
    ends_.receives.resize(plan_.edges.size());
    for (std::size_t i = 0; i < plan_.edges.size(); ++i)
      if (plan_.edges[i].to == world.rank())
        ends_.receives[i] = way->expose(world, plan_.edges[i], plan_.edges[i].name);
    for (std::size_t i = 0; i < plan_.edges.size(); ++i)
      if (plan_.edges[i].from == world.rank())
        ends_.sends[i] = way->attach(world, plan_.edges[i], plan_.edges[i].name, {});
    neighbours_.attach({});
    runner_ = std::make_unique<StepRunner>(world, plan_, program_, memory_, ends_, neighbours_);
  }

  Status step() {
    std::vector<Tensor> feeds(program_.size());
    for (std::size_t i = 0; i < program_.size(); ++i)
      if (program_[i].work == Work::feed) {
        const TensorType& type = program_[i].node->outputs[0];
        feeds[i] = memory_.get(NodeId(i), 0, type.dtype, type.shape.shape());
        fill_at_random(feeds[i], i);
      }
    return runner_->run(feeds, {}).status();
  }

 private:
  const Plan plan_;
  const std::vector<Instruction> program_;
  TensorMemory memory_;
  Neighbours neighbours_;
  Ends ends_;
  std::unique_ptr<StepRunner> runner_;
};

/// The reader on rank 1 is still at work when rank 0 sends again.
TEST(Flow, TheCheckReportsAPlantedEdgeWithoutCreditsThatIsNotSafe) {
  for (const char* fabric : kFabrics) {
    SCOPED_TRACE(fabric);
    std::atomic<bool> has_sent{false};
    tests::Meeting meeting(2);
    tests::run_on(2, checked(fabric), [&](World& world) {
      Plan plan = partition(one_edge(false), {.ranks = 2, .may_view = false});
      ASSERT_TRUE(plan.edges[0].needs_credits);
      plan.edges[0].needs_credits = false;
      Kernels kernels;
      kernels.add("Relu", [](KernelCall& call) { static_cast<void>(call.output(0)); });
      kernels.add("weft.Scale", [&](KernelCall& call) {
        static_cast<void>(call.output(0));
        EXPECT_TRUE(tests::soon([&] { return has_sent.load(); }));
      });
      Share share(world, std::move(plan), kernels);
      const Status first = share.step();
      if (world.rank() == 0) {
        EXPECT_TRUE(first.ok()) << first.text();
        EXPECT_TRUE(tests::tells(share.step(), Code::flow_overrun,
                                 {"edge y:0 from rank 0 to 1", "has not let go of tensor 1"}));
        has_sent = true;
      }
      meeting.wait();
    });
  }
}

/// The credit of 0's tensor goes from 1 to 0, the news that it was read by way of 2.
TEST(Flow, TheCheckReportsNothingWhereNewsOvertakesACredit) {
  constexpr int kSteps = 300;
  Graph graph;
  graph.place_next({0});
  TensorId at = graph.feed("x", DType::f32, {2, 3});
  for (const int rank : {1, 2, 0}) {
    graph.place_next({rank});
    at = graph.add("Relu", {at});
  }
  graph.fetch(at, "out");
  for (const char* fabric : kFabrics)
    tests::run_on(3, checked(fabric), [&](World& world) {
      Executor executor(world, graph, reference_kernels());
      for (const Edge& edge : executor.plan().edges) EXPECT_FALSE(edge.needs_credits) << edge.name;
      for (int step = 0; step < kSteps; ++step) {
        const auto fetched = executor.run(feeds_of(executor, world.rank(), step));
        ASSERT_TRUE(fetched.ok()) << fabric << ", step " << step << ": " << fetched.status().text();
      }
    });
}

}  // namespace
}  // namespace weft::dataflow
