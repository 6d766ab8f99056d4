// Plans: kinds of edges and their reasons, memory, replicas, reports.
#include "weft/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/unit/dataflow/refused.hpp"

namespace weft::dataflow {
namespace {

/// A variable on rank 0, read on rank 1, whose result comes back and is assigned.
Graph trainer(const PartialShape& batch = {8, 4}) {
  Graph graph;
  graph.place_next({1});
  const TensorId x = graph.feed("x", DType::f32, batch);
  graph.place_next({0});
  const TensorId w = graph.variable("w", DType::f32, {4, 4});
  graph.place_next({1});
  const TensorId y = graph.add("MatMul", {x, w}, {}, "y");
  const TensorId g = graph.add("Gemm", {x, y}, {{"transA", 1}}, "g");
  graph.add("Relu", {y}, {}, "relu");
  graph.place_next({0});
  graph.assign(w, g, "update");
  return graph;
}

const Edge& edge(const Plan& plan, const std::string& name, int to) {
  const auto found = std::find_if(plan.edges.begin(), plan.edges.end(), [&](const Edge& one) {
    return one.name == name && one.to == to;
  });
  if (found == plan.edges.end()) throw std::runtime_error("no edge " + name);
  return *found;
}

TEST(Partition, ReplacesACutEdgeByASendAndAReceive) {
  const Plan plan = partition(trainer(), {.ranks = 2});
  ASSERT_EQ(plan.edges.size(), 2U);
  const Edge& weights = edge(plan, "w:0", 1);
  EXPECT_EQ(weights.from, 0);
  EXPECT_EQ(weights.kind, EdgeKind::fixed);
  EXPECT_EQ(weights.bytes, 64U);
  const Node& send = plan.parts[0].graph.node(weights.send);
  const Node& receive = plan.parts[1].graph.node(weights.receive);
  EXPECT_EQ(send.definition->name, "weft.RdmaSend");
  EXPECT_EQ(receive.definition->name, "weft.RdmaRecv");
  EXPECT_EQ(send.attributes.integer("edge"), receive.attributes.integer("edge"));
  EXPECT_EQ(receive.outputs[0].text(), "f32[4, 4]");
  // The assignment runs after the send, which reads the old value.
  const auto& after = plan.parts[0].graph.node(plan.parts[0].graph.find("update")).after;
  EXPECT_NE(std::find(after.begin(), after.end(), weights.send), after.end());
}

TEST(Partition, SendsATensorOnceToEachRankThatNeedsIt) {
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("x", DType::f32, {2});
  for (const int rank : {1, 1, 2, 0}) {
    graph.place_next({rank});
    graph.add("Relu", {x});
    graph.add("Add", {x, x});
  }
  const Plan plan = partition(graph, {.ranks = 3});
  ASSERT_EQ(plan.edges.size(), 2U);
  EXPECT_EQ(plan.edges[0].to, 1);
  EXPECT_EQ(plan.edges[1].to, 2);
}

TEST(Partition, NeedsNoCreditsInATrainingLoop) {
  const Plan plan = partition(trainer(), {.ranks = 2});
  // 'relu' reads y, not w; all readers of w lead to the gradient, which goes to rank 0.
  EXPECT_FALSE(edge(plan, "w:0", 1).needs_credits) << plan.text();
  EXPECT_FALSE(edge(plan, "g:0", 0).needs_credits) << plan.text();
}

TEST(Partition, NeedsCreditsWhereAReaderMayBeLate) {
  Graph graph = trainer();
  graph.place_next({1});
  graph.add("Tanh", {{graph.find("w"), 0}}, {}, "late");
  const Plan plan = partition(graph, {.ranks = 2});
  const Edge& weights = edge(plan, "w:0", 1);
  EXPECT_TRUE(weights.needs_credits);
  EXPECT_NE(weights.why_credits.find("'late' may still read"), std::string::npos);
}

TEST(Partition, NeedsCreditsWhereAReceivedTensorIsSentOn) {
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("x", DType::f32, {4});
  graph.place_next({1});
  const TensorId alias = graph.add("Reshape", {x}, {{"shape", Sizes{2, 2}}}, "alias");
  const TensorId made = graph.add("Relu", {x}, {}, "made");
  graph.place_next({0});
  graph.fetch(graph.add("Sum", {made, graph.add("Reshape", {alias}, {{"shape", Sizes{4}}})}),
              "out");
  const Plan plan = partition(graph, {.ranks = 2});
  // Rank 0 may have the alias, and send x again, before its send on rank 1 knows that it has ended.
  const Edge& sent_on = edge(plan, "x:0", 1);
  EXPECT_TRUE(sent_on.needs_credits) << plan.text();
  EXPECT_NE(sent_on.why_credits.find("'send alias:0 to 0' may still read"), std::string::npos)
      << sent_on.why_credits;
  EXPECT_FALSE(edge(plan, "made:0", 0).needs_credits) << plan.text();
}

TEST(Partition, ShowsNoViewOfMemoryThatCameBack) {
  // Rank 0's tensor goes to rank 1 and back as aliases; what rank 0 has then is a received tensor.
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("x", DType::f32, {4});
  const auto reshaped = [&](TensorId tensor, int rank, Sizes shape, const char* name) {
    graph.place_next({rank});
    return graph.add("Reshape", {tensor}, {{"shape", std::move(shape)}}, name);
  };
  const TensorId there = reshaped(x, 1, {2, 2}, "there");
  const TensorId back = reshaped(there, 0, {4, 1}, "back");
  graph.place_next({2});
  graph.fetch(graph.add("Relu", {back}), "out");
  const Plan plan = partition(graph, {.ranks = 3, .hosts = {0, 1, 0}});
  EXPECT_EQ(edge(plan, "back:0", 2).kind, EdgeKind::fixed) << plan.text();
  EXPECT_NE(edge(plan, "back:0", 2).why.find("that of a received tensor"), std::string::npos);
}

TEST(Partition, SendsChangingShapesAndGpuMemoryDynamically) {
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("x", DType::f32, {kAnySize, 4});
  const TensorId v = graph.variable("v", DType::f32, {4});
  const TensorId w = graph.variable("w", DType::f32, {4});
  graph.place_next({1, Memory::gpu});
  graph.add("Add", {v, v}, {}, "on_gpu");
  const TensorId made = graph.add("Relu", {v}, {}, "made_on_gpu");
  graph.place_next({1});
  graph.add("Add", {x, w}, {}, "on_host");
  graph.place_next({0});
  graph.add("Relu", {made});
  // One host: views come last of all rules.
  const Plan plan = partition(graph, {.ranks = 2, .hosts = {0, 0}});
  EXPECT_EQ(edge(plan, "x:0", 1).kind, EdgeKind::dynamic);
  EXPECT_NE(edge(plan, "x:0", 1).why.find("[?, 4] may change"), std::string::npos);
  EXPECT_EQ(edge(plan, "v:0", 1).kind, EdgeKind::dynamic);
  EXPECT_NE(edge(plan, "v:0", 1).why.find("'on_gpu' works in GPU memory"), std::string::npos);
  EXPECT_EQ(edge(plan, "made_on_gpu:0", 0).kind, EdgeKind::dynamic);
  EXPECT_EQ(edge(plan, "w:0", 1).kind, EdgeKind::viewed);
  EXPECT_EQ(plan.parts[0].graph.node(edge(plan, "x:0", 1).send).definition->name,
            "weft.RdmaSendDyn");
  EXPECT_EQ(plan.parts[0].memory.dynamic, 3U);
}

TEST(Partition, ViewsOnOneHostWhatIsOnlyRead) {
  const Plan apart = partition(trainer(), {.ranks = 2, .hosts = {3, 4}});
  EXPECT_EQ(edge(apart, "g:0", 0).kind, EdgeKind::fixed);
  const Plan plan = partition(trainer(), {.ranks = 2, .hosts = {3, 3}});
  EXPECT_EQ(edge(plan, "g:0", 0).kind, EdgeKind::viewed);
  EXPECT_EQ(edge(plan, "w:0", 1).kind, EdgeKind::viewed) << plan.text();
  EXPECT_EQ(plan.parts[1].graph.node(edge(plan, "w:0", 1).receive).definition->name, "weft.View");
  const Plan off = partition(trainer(), {.ranks = 2, .hosts = {3, 3}, .may_view = false});
  EXPECT_EQ(edge(off, "g:0", 0).kind, EdgeKind::fixed);
}

TEST(Partition, DoesNotViewMemoryWhoseShapeMayChange) {
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("x", DType::f32, {kAnySize});
  const TensorId fixed = graph.add("Reshape", {x}, {{"shape", Sizes{2, 2}}}, "fixed");
  graph.place_next({1});
  graph.add("Relu", {fixed});
  const Plan plan = partition(graph, {.ranks = 2, .hosts = {0, 0}});
  EXPECT_EQ(edge(plan, "fixed:0", 1).kind, EdgeKind::fixed);
  EXPECT_NE(edge(plan, "fixed:0", 1).why.find("that of 'x', whose shape [?] may change"),
            std::string::npos)
      << plan.text();
}

TEST(Partition, NeedsNoCreditsForAViewThatHasEndedBeforeTheMemoryIsWritten) {
  const PartitionOptions one_host{.ranks = 2, .hosts = {0, 0}};
  const Plan loop = partition(trainer(), one_host);
  EXPECT_FALSE(edge(loop, "w:0", 1).needs_credits) << loop.text();
  EXPECT_EQ(edge(loop, "w:0", 1).why_credits, "rank 0's step ends after 'y'");
  EXPECT_FALSE(edge(loop, "g:0", 0).needs_credits) << loop.text();
  EXPECT_NE(edge(loop, "g:0", 0).why_credits.find("precedes the next version"), std::string::npos);
  // A feed or variable may be written once the step has ended, another tensor by the next one.
  Graph forward;
  forward.place_next({0});
  const TensorId x = forward.feed("x", DType::f32, {4});
  const TensorId made = forward.add("Tanh", {x}, {}, "made");
  forward.place_next({1});
  forward.add("Add", {x, made}, {}, "reader");
  const Plan plan = partition(forward, one_host);
  EXPECT_TRUE(edge(plan, "x:0", 1).needs_credits);
  EXPECT_EQ(edge(plan, "x:0", 1).why_credits, "'reader' may still read when rank 0's step ends");
  EXPECT_TRUE(edge(plan, "made:0", 1).needs_credits);
  EXPECT_EQ(edge(plan, "made:0", 1).why_credits,
            "'reader' may still read when 'made:0' is published again");
}

TEST(Partition, CountsTheMemoryOfViewsOfOneTensorOnce) {
  Graph graph;
  graph.place_next({0});
  const TensorId y = graph.add("Tanh", {graph.feed("x", DType::f32, {4})}, {}, "y");
  graph.place_next({2});
  graph.add("Relu", {y}, {}, "early");
  graph.place_next({0});
  const TensorId alias = graph.add("Reshape", {y}, {{"shape", Sizes{2, 2}}}, "alias");
  graph.place_next({1});
  graph.add("Relu", {alias}, {}, "late");
  const Plan plan = partition(graph, {.ranks = 3, .hosts = {0, 0, 0}});
  EXPECT_EQ(edge(plan, "alias:0", 1).kind, EdgeKind::viewed);
  EXPECT_TRUE(edge(plan, "alias:0", 1).needs_credits) << plan.text();
  EXPECT_TRUE(edge(plan, "y:0", 2).needs_credits) << plan.text();
  EXPECT_EQ(plan.parts[0].memory.published, 32U) << "they share two buffers";
}

TEST(Partition, DoesNotViewWhatAnAssignmentMayOverwrite) {
  Graph graph = trainer();
  graph.place_next({1});
  graph.add("Tanh", {{graph.find("w"), 0}}, {}, "late");
  const PartitionOptions one_host{.ranks = 2, .hosts = {0, 0}};
  const Plan plan = partition(graph, one_host);
  EXPECT_EQ(edge(plan, "w:0", 1).kind, EdgeKind::fixed);
  EXPECT_NE(edge(plan, "w:0", 1).why.find("'late' may still read it when 'update' overwrites it"),
            std::string::npos);
  Graph after = trainer();
  after.place_next({1});
  after.add("Tanh", {{after.find("update"), 0}}, {}, "reads_new");
  EXPECT_NE(edge(partition(after, one_host), "update:0", 1)
                .why.find("'update' overwrites it in the next step"),
            std::string::npos);
}

TEST(Partition, WorksInPlaceOnlyOnMemoryOfTheStep) {
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("x", DType::f32, {2, 3});
  const TensorId a = graph.add("Relu", {x}, {}, "feed_stays");
  const TensorId b = graph.add("Tanh", {a}, {}, "in_place");
  const TensorId c = graph.add("Reshape", {b}, {{"shape", Sizes{-1}}}, "alias");
  const TensorId d = graph.add("Sigmoid", {c}, {}, "behind_alias");
  graph.add("Relu", {d}, {}, "second_reader");
  graph.add("Add", {d, d}, {}, "reads_twice");
  graph.place_next({1});
  graph.add("Relu", {a}, {}, "slot_stays");
  const Plan plan = partition(graph, {.ranks = 2});
  std::vector<std::string> names;
  for (const InPlace& one : plan.parts[0].in_place)
    names.push_back(plan.parts[0].graph.node(one.node).name);
  // 'in_place' has a second reader: the send to rank 1.
  EXPECT_EQ(names, std::vector<std::string>{"behind_alias"});
  EXPECT_TRUE(plan.parts[1].in_place.empty());
}

TEST(Partition, RefusesImpossiblePlacementsByNode) {
  Graph none;
  none.feed("x", DType::f32, {2});
  const Refusal missing = refused([&] { partition(none, {.ranks = 2}); });
  EXPECT_EQ(missing.code, Code::bad_argument);
  EXPECT_TRUE(missing.names("node 'x' (weft.Feed) has no placement"));
  EXPECT_TRUE(refused([] {
                partition(trainer(), {.ranks = 1});
              }).names("node 'x' (weft.Feed) is placed on rank 1; there are 1 ranks"));
  Graph away = trainer();
  away.place(away.find("update"), {1});
  EXPECT_TRUE(refused([&] {
                partition(away, {.ranks = 2});
              }).names("node 'update' (weft.Assign) on rank 1 assigns node 'w'"));
  Graph across = trainer();
  across.run_after(across.find("update"), across.find("relu"));
  EXPECT_TRUE(refused([&] {
                partition(across, {.ranks = 2});
              }).names("is to run after node 'relu' (Relu) on rank 1"));
  EXPECT_EQ(refused([] { partition(trainer(), {.ranks = 2, .hosts = {0}}); }).code,
            Code::bad_argument);
}

TEST(Partition, RefusesNodesThatItMakesItself) {
  for (const char* name : {"weft.RdmaSend", "weft.RdmaSendDyn", "weft.Publish"}) {
    Graph graph;
    graph.place_next({0});
    graph.add(name, {graph.feed("x", DType::f32, {2})}, {{"edge", 0}}, "mine");
    const Refusal made = refused([&] { partition(graph, {}); });
    EXPECT_EQ(made.code, Code::bad_argument);
    EXPECT_TRUE(made.names("'mine'") && made.names("partition makes itself"));
  }
}

TEST(Partition, CountsNoMoreBytesThanThereAre) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const MemoryNeed need{.received = kMost - 5, .sent = 4, .published = 7};
  EXPECT_EQ(need.total(), kMost);
}

TEST(Partition, TellsTheBytesOfPlansLargerThanTheArenas) {
  const Plan plan = partition(trainer(), {.ranks = 2});
  for (const Part& part : plan.parts) {
    EXPECT_EQ(part.memory.received, 64U);
    EXPECT_EQ(part.memory.sent, 64U);
    EXPECT_EQ(part.memory.total(), 128U);
  }
  EXPECT_EQ(refused([] {
              partition(trainer(), {.ranks = 2, .arena_bytes = {128, 128}});
            }).code,
            Code::ok);
  const Refusal refusal = refused([] {
    partition(trainer(), {.ranks = 2, .arena_bytes = {127, 100}});
  });
  EXPECT_EQ(refusal.code, Code::exhausted);
  EXPECT_TRUE(refusal.names("rank 0 needs 128 bytes and has 127 (largest: 'w:0', 64 bytes)") &&
              refusal.names("rank 1 needs 128 bytes and has 100"))
      << refusal.message;
  const Plan viewed = partition(trainer(), {.ranks = 2, .hosts = {0, 0}});
  EXPECT_EQ(viewed.parts[0].memory.published, 64U) << "a variable keeps its one buffer";
  EXPECT_EQ(viewed.parts[0].memory.total(), 64U);
  EXPECT_EQ(viewed.parts[1].memory.published, 128U) << "two buffers";
}

TEST(Partition, ReportsEveryEdgeAsTextJsonAndPicture) {
  const Plan plan = partition(trainer({kAnySize, 4}), {.ranks = 2});
  EXPECT_NE(plan.text().find("edge 0: w:0 f32[4, 4] from rank 0 to 1: static, 64 bytes"),
            std::string::npos)
      << plan.text();
  const auto json = nlohmann::json::parse(plan.json());
  ASSERT_EQ(json["edges"].size(), 2U);
  EXPECT_EQ(json["edges"][0]["tensor"], "w:0");
  EXPECT_EQ(json["edges"][0]["shape"], nlohmann::json({4, 4}));
  EXPECT_EQ(json["edges"][0]["kind"], "static");
  EXPECT_EQ(json["edges"][0]["credits"], false);
  EXPECT_EQ(json["edges"][0]["why"], plan.edges[0].why);
  EXPECT_EQ(json["ranks"][1]["bytes"], plan.parts[1].memory.total());
  const std::string picture = plan.dot();
  EXPECT_NE(picture.find("subgraph cluster_1"), std::string::npos);
  EXPECT_NE(picture.find("static, 64 bytes, no credits"), std::string::npos) << picture;
  EXPECT_NE(dot(trainer()).find("label=\"update (weft.Assign)\""), std::string::npos);
}

TEST(Partition, ReportsNamesWithQuotes) {
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("a \"b\" \\", DType::f32, {2});
  graph.place_next({1});
  graph.add("Relu", {x});
  const Plan plan = partition(graph, {.ranks = 2});
  EXPECT_EQ(nlohmann::json::parse(plan.json())["edges"][0]["tensor"], "a \"b\" \\:0");
}

}  // namespace
}  // namespace weft::dataflow
