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
        publications_(world, plan_, "share"),
        memory_(world, program_, publications_, SentMemory::arena),
        slots_(make_slot_way(world)),
        views_(make_view_way(world, plan_, "share", publications_)),
        neighbours_(world, plan_, "share") {
    ends_.sends.resize(plan_.edges.size());
    ends_.receives.resize(plan_.edges.size());
    for (std::size_t i = 0; i < plan_.edges.size(); ++i) way_of(i).expose(place(i));
    for (std::size_t i = 0; i < plan_.edges.size(); ++i)
      if (plan_.edges[i].to == world.rank())
        ends_.receives[i] = way_of(i).receive_end(place(i), {});
      else if (plan_.edges[i].from == world.rank())
        ends_.sends[i] = way_of(i).send_end(place(i), {});
    neighbours_.attach({});
    shown_.emplace(world, "share", plan_, std::vector<std::string>(plan_.edges.size()), program_);
    runner_ =
        std::make_unique<StepRunner>(world, plan_, program_, memory_, ends_, neighbours_, *shown_);
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
  EdgePlace place(std::size_t edge) const {
    return {edge, plan_.edges[edge], plan_.edges[edge].name};
  }
  Way& way_of(std::size_t edge) const {
    return plan_.edges[edge].kind == EdgeKind::viewed ? *views_ : *slots_;
  }

  const Plan plan_;
  const std::vector<Instruction> program_;
  Publications publications_;
  TensorMemory memory_;
  std::unique_ptr<Way> slots_;
  std::unique_ptr<Way> views_;
  Neighbours neighbours_;
  Ends ends_;
  std::optional<ExecutorStats> shown_;
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

/// one_edge() as a view whose reader rank 0 does not wait for.
Plan planted_view() {
  Plan plan = partition(one_edge(false), {.ranks = 2, .hosts = {0, 0}});
  EXPECT_EQ(plan.edges[0].kind, EdgeKind::viewed);
  EXPECT_TRUE(plan.edges[0].needs_credits);
  plan.edges[0].needs_credits = false;
  return plan;
}

/// Rank 1 still views the first version when rank 0 is to fill its buffer again.
TEST(Flow, AProducerNeverFillsABufferThatIsViewedThoughThePlanIsWrong) {
  std::atomic<bool> is_overrun{false};
  std::atomic<bool> is_viewed{false};
  tests::Meeting meeting(2);
  tests::run_on(2, [&](World& world) {
    Kernels kernels;
    kernels.add("Relu", [](KernelCall& call) { static_cast<void>(call.output(0)); });
    kernels.add("weft.Scale", [&](KernelCall& call) {
      static_cast<void>(call.output(0));
      is_viewed = true;
      EXPECT_TRUE(tests::soon([&] { return is_overrun.load(); }));
    });
    Share share(world, planted_view(), kernels);
    if (world.rank() == 0) {
      EXPECT_TRUE(share.step().ok());
      EXPECT_TRUE(tests::soon([&] { return is_viewed.load(); }));
      EXPECT_TRUE(share.step().ok()) << "there is a second buffer";
      EXPECT_TRUE(tests::tells(share.step(), Code::flow_overrun,
                               {"'y'", "y:0", "rank 1", "has not let go of version 1"}));
      is_overrun = true;
    } else {
      static_cast<void>(share.step());
    }
    meeting.wait();
  });
}

/// Rank 0 has published twice when rank 1 looks for the first time.
TEST(Flow, AReaderNeverTakesAnotherStepsVersionThoughThePlanIsWrong) {
  tests::Meeting meeting(2);
  tests::run_on(2, [&](World& world) {
    const Kernels kernels = reference_kernels();
    Share share(world, planted_view(), kernels);
    if (world.rank() == 0) {
      EXPECT_TRUE(share.step().ok());
      EXPECT_TRUE(share.step().ok());
    }
    meeting.wait();
    if (world.rank() == 1) {
      EXPECT_TRUE(tests::tells(share.step(), Code::flow_overrun,
                               {"'receive y:0 from 0'", "edge y:0 from rank 0 to 1",
                                "version 2 was published before version 1 was viewed"}));
    }
    meeting.wait();
  });
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
