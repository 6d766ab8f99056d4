// The cost of steps from step 2 on over fake NICs, where work requests and registrations are real.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/threads/dataflow/costs.hpp"
#include "tests/threads/verbs/nics.hpp"
#include "tests/unit/verbs/recording_verbs.hpp"

namespace weft::dataflow {
namespace {

/// Counts of the executors, and of the NICs, in the same steps.
struct NicCost : Cost {
  std::uint64_t notifying = 0;  ///< writes with an immediate: tensor, announcement, credit
  std::uint64_t reads = 0;
  std::uint64_t messages = 0;
  std::uint64_t registered_regions = 0;  ///< calls of reg_mr
};

NicCost cost_by_nics(int ranks, const Graph& graph, SentMemory sent) {
  tests::NicJob job;
  NicCost cost;
  const auto sum = [&](std::uint64_t& into, auto member) {
    std::uint64_t all = 0;
    for (int rank = 0; rank < ranks; ++rank) all += member(job.network.counts(rank));
    into = all - into;
  };
  const auto look = [&] {
    sum(cost.notifying, [](const tests::NicCounts& one) { return one.writes_with_immediate; });
    sum(cost.reads, [](const tests::NicCounts& one) { return one.reads; });
    sum(cost.messages, [](const tests::NicCounts& one) { return one.sends; });
    sum(cost.registered_regions,
        [](const tests::NicCounts& one) { return one.of(tests::VerbsCall::reg_mr); });
  };
  static_cast<Cost&>(cost) = cost_of(graph, kCostSteps,
                                     {.ranks = ranks,
                                      .sent = sent,
                                      .run = [&](int all, const auto& body) { job.run(all, body); },
                                      .look = look});
  return cost;
}

/// One work request for each static transfer of each step, two for each dynamic one.
std::uint64_t requests_of(const Plan& plan) {
  return kCostSteps * (plan.edges.size() + dynamic_edges(plan));
}

class CostsByNics : public testing::TestWithParam<std::int64_t> {};

TEST_P(CostsByNics, AreTheWorkRequestsOfEachTransferAndNothingElse) {
  const Graph graph = spread_model(GetParam());
  const Plan plan = partition(graph, {.ranks = 3});
  const NicCost cost = undisturbed([&] { return cost_by_nics(3, graph, SentMemory::arena); });
  EXPECT_EQ(cost.bytes_copied, 0U);
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_EQ(cost.registered_regions, 0U);
  EXPECT_EQ(cost.control_messages, 0U);
  EXPECT_EQ(cost.work_requests, requests_of(plan));
  EXPECT_EQ(cost.credit_writes, kCostSteps * dynamic_edges(plan)) << "the memory is free";
  // The NICs' own counts. Besides, queue pairs report the receives that they have posted.
  EXPECT_EQ(cost.notifying, kCostSteps * plan.edges.size() + cost.credit_writes);
  EXPECT_EQ(cost.reads, kCostSteps * dynamic_edges(plan));
  EXPECT_EQ(cost.messages, 0U);
}

TEST_P(CostsByNics, AreACopyOfAllThatIsCutWithTheAnalysisOff) {
  const Graph graph = spread_model(GetParam());
  const Plan plan = partition(graph, {.ranks = 3});
  const NicCost cost = cost_by_nics(3, graph, SentMemory::plain);
  EXPECT_EQ(cost.bytes_copied, bytes_cut(plan, kCostSteps));
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_EQ(cost.registered_regions, 0U);
  EXPECT_EQ(cost.work_requests, requests_of(plan));
}

/// The poster: what changes its size is registered by each NIC where it is allocated, once a step;
/// what does not, before the first.
TEST_P(CostsByNics, AreTheRegistrationsOfCutEdges) {
  const Graph graph = spread_model(GetParam());
  const Plan plan = partition(graph, {.ranks = 3});
  std::set<TensorId> changing;
  for (const Edge& edge : plan.edges)
    if (!edge.type.shape.known()) changing.insert(edge.tensor);
  const NicCost cost = cost_by_nics(3, graph, SentMemory::registered);
  EXPECT_EQ(cost.bytes_copied, 0U);
  EXPECT_EQ(cost.registered_tensors, kCostSteps * changing.size());
  EXPECT_EQ(cost.registered_regions, kCostSteps * changing.size()) << "the NICs' own count";
  EXPECT_EQ(cost.work_requests, requests_of(plan));
}

INSTANTIATE_TEST_SUITE_P(Of, CostsByNics, testing::Values(std::int64_t{4}, kAnySize),
                         [](const auto& info) {
                           return info.param == kAnySize ? "open_rows" : "known_rows";
                         });

/// Remembers the queue pair by which each edge, known by its immediate, has gone.
class PairsOfEdges final : public p2p::verbs::RecordingVerbs {
 public:
  using RecordingVerbs::RecordingVerbs;

  std::map<std::uint32_t, std::set<ibv_qp*>> pairs;
  std::mutex mutex;

  int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept override {
    {
      const std::lock_guard lock(mutex);
      for (const ibv_send_wr* one = requests; one != nullptr; one = one->next)
        if (one->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) pairs[one->imm_data].insert(qp);
    }
    return RecordingVerbs::post_send(qp, requests, bad);
  }
};

TEST(QueuePairs, AreSharedOutAmongEdges) {
  constexpr std::size_t kPairs = 4;
  constexpr std::size_t kEdges = 8;
  Graph graph;
  for (std::size_t i = 0; i < kEdges; ++i) {
    graph.place_next({0});
    const TensorId x = graph.add("weft.Fill", {},
                                 {{"dtype", "f32"}, {"shape", Sizes{1000}}, {"value", double(i)}});
    graph.place_next({1});
    graph.fetch(graph.add("Relu", {x}), "out" + std::to_string(i));
  }
  tests::FakeNetwork network;
  tests::Meeting meeting(2);
  std::shared_ptr<PairsOfEdges> sender;
  run_ranks(
      2,
      [&](World& world) {
        Executor executor(world, graph, reference_kernels());
        ASSERT_TRUE(executor.run().ok());
        meeting.wait();
        if (world.rank() == 0) {
          const std::lock_guard lock(sender->mutex);
          sender->pairs.clear();
        }
        meeting.wait();
        for (int step = 0; step < kCostSteps; ++step) ASSERT_TRUE(executor.run().ok());
        meeting.wait();
      },
      tests::verbs_settings().with(Setting::qps_per_peer, std::to_string(kPairs)),
      [&](int rank) -> std::shared_ptr<p2p::verbs::Verbs> {
        auto verbs = std::make_shared<PairsOfEdges>(network.device(rank));
        if (rank == 0) sender = verbs;
        return verbs;
      });
  std::map<ibv_qp*, int> edges;
  for (const auto& [edge, pairs] : sender->pairs) {
    EXPECT_EQ(pairs.size(), 1U) << "the tensors of an edge stay in order";
    ++edges[*pairs.begin()];
  }
  EXPECT_EQ(edges.size(), kPairs);
  for (const auto& [pair, number] : edges) EXPECT_GE(number, int(kEdges / kPairs));
}

}  // namespace
}  // namespace weft::dataflow
