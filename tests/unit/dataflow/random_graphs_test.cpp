// 10 000 random graphs: inference against all shapes of the feeds, parts against the whole, and the
// proof of credit-free edges against a search.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <set>

#include "tests/seeds.hpp"
#include "tests/unit/dataflow/random_graph.hpp"

namespace weft::dataflow {
namespace {

constexpr std::uint64_t kGraphs = tests::seeds(10'000);

/// The counts show that the graphs have what they are to have.
struct Seen {
  int graphs = 0, changing = 0, fixed = 0, viewed = 0, dynamic = 0, free = 0, free_views = 0,
      in_place = 0, overwrites = 0, assignments = 0;
};

void check_inference(const RandomGraph& random) {
  const Graph& graph = random.graph();
  for (std::size_t i = 0; i < graph.size(); ++i)
    for (std::size_t o = 0; o < graph.nodes()[i].outputs.size(); ++o) {
      const TensorId tensor{NodeId(i), std::int32_t(o)};
      const auto& cases = random.types(tensor);
      const PartialShape& told = graph.type(tensor).shape;
      ASSERT_EQ(told.dims(), cases[0].shape.dims()) << graph.text();
      for (std::size_t d = 0; d < told.dims(); ++d) {
        std::set<std::int64_t> sizes;
        for (const TensorType& one : cases) sizes.insert(one.shape[d]);
        ASSERT_EQ(told[d], sizes.size() == 1 ? *sizes.begin() : kAnySize)
            << graph.nodes()[i].name << " dimension " << d << " in\n"
            << graph.text();
      }
    }
}

/// All nodes of two steps, each with the nodes that it directly precedes, found edge by edge.
class TwoSteps {
 public:
  using Place = std::tuple<int, int, NodeId>;  // step, rank, node

  explicit TwoSteps(const Plan& plan) : plan_(plan) {}

  /// Whether `from` has ended before `to` begins.
  bool precedes(const Place& from, const Place& to) const {
    // A send may end later than its receive.
    std::vector<Place> open = on_its_rank(from);
    std::set<Place> seen(open.begin(), open.end());
    while (!open.empty()) {
      const Place at = open.back();
      open.pop_back();
      if (at == to) return true;
      for (const Place& next : after(at))
        if (seen.insert(next).second) open.push_back(next);
    }
    return false;
  }

 private:
  std::vector<Place> after(const Place& at) const {
    const auto [step, rank, node] = at;
    std::vector<Place> next = on_its_rank(at);
    for (const Edge& edge : plan_.edges)
      if (edge.from == rank && edge.send == node) next.emplace_back(step, edge.to, edge.receive);
    return next;
  }

  std::vector<Place> on_its_rank(const Place& at) const {
    const auto [step, rank, node] = at;
    const Graph& graph = plan_.parts[std::size_t(rank)].graph;
    std::vector<Place> next;
    for (NodeId i = 0; i < NodeId(graph.size()); ++i) {
      if (step == 0) next.emplace_back(1, rank, i);  // the rank's next step
      for (const TensorId input : graph.node(i).inputs)
        if (input.node == node) next.emplace_back(step, rank, i);
      for (const NodeId earlier : graph.node(i).after)
        if (earlier == node) next.emplace_back(step, rank, i);
    }
    return next;
  }

  const Plan& plan_;
};

/// The readers of the memory of `tensor`, found reader by reader.
void collect_users(const Part& part, TensorId tensor, std::set<NodeId>& users) {
  for (NodeId i = 0; i < NodeId(part.graph.size()); ++i) {
    const Node& node = part.graph.node(i);
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] != tensor) continue;
      users.insert(i);
      for (const Reuse& reuse : node.definition->reuses)
        if (reuse.input == k && reuse.kind != Reuse::Kind::may)
          collect_users(part, {i, std::int32_t(reuse.output)}, users);
    }
  }
}

/// The tensor of the producer's part whose memory the edge's tensor is.
TensorId memory_of(const Plan& plan, const Edge& edge) {
  const Graph& graph = plan.parts[std::size_t(edge.from)].graph;
  TensorId at = graph.node(edge.send).inputs[0];
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (const Reuse& reuse : graph.node(at.node).definition->reuses) {
      if (reuse.kind == Reuse::Kind::may || std::int32_t(reuse.output) != at.output) continue;
      at = graph.node(at.node).inputs[reuse.input];
      goes_on = true;
      break;
    }
  }
  return at;
}

/// The nodes of the producer that write the edge's memory, or let others do so, in the next step.
std::vector<NodeId> next_writers(const Plan& plan, const Edge& edge) {
  if (edge.kind == EdgeKind::fixed) return {edge.send};
  const TensorId memory = memory_of(plan, edge);
  const std::string& definition =
      plan.parts[std::size_t(edge.from)].graph.node(memory.node).definition->name;
  // They have no earlier node: what precedes them has ended in the step before.
  if (definition == "weft.Feed" || definition == "weft.Variable") return {memory.node};
  std::vector<NodeId> writers;
  for (const Edge& other : plan.edges)
    if (other.kind == EdgeKind::viewed && other.from == edge.from &&
        memory_of(plan, other) == memory)
      writers.push_back(other.send);
  return writers;
}

void check_credits(const Plan& plan, Seen& seen) {
  const TwoSteps steps(plan);
  for (const Edge& edge : plan.edges) {
    if (edge.kind == EdgeKind::dynamic) {
      ASSERT_TRUE(edge.needs_credits);
      continue;
    }
    std::set<NodeId> users;
    collect_users(plan.parts[std::size_t(edge.to)], {edge.receive, 0}, users);
    bool is_free = true;
    for (const NodeId user : users)
      for (const NodeId writer : next_writers(plan, edge))
        is_free = is_free && steps.precedes({0, edge.to, user}, {1, edge.from, writer});
    ASSERT_EQ(edge.needs_credits, !is_free) << edge.name << " to " << edge.to << "\n"
                                            << plan.text();
    if (is_free) ++(edge.kind == EdgeKind::fixed ? seen.free : seen.free_views);
  }
}

void count(const Plan& plan, Seen& seen) {
  ++seen.graphs;
  std::set<std::pair<TensorId, int>> once;
  for (const Edge& edge : plan.edges) {
    ASSERT_TRUE(once.insert({edge.tensor, edge.to}).second) << edge.name << " goes twice";
    (edge.kind == EdgeKind::fixed    ? seen.fixed
     : edge.kind == EdgeKind::viewed ? seen.viewed
                                     : seen.dynamic)++;
  }
  for (const Part& part : plan.parts) {
    seen.in_place += int(part.in_place.size());
    for (const Node& node : part.graph.nodes()) {
      seen.overwrites += node.definition->name == "test.Negate" ? 1 : 0;
      seen.assignments += node.definition->name == "weft.Assign" ? 1 : 0;
      seen.changing += node.definition->name == "weft.Feed" && !node.outputs[0].shape.known();
    }
  }
}

void check_same(const reference::Fetched& whole, const reference::Fetched& parts) {
  ASSERT_EQ(whole.size(), parts.size());
  for (const auto& [name, values] : whole) {
    const auto& other = parts.at(name);
    ASSERT_EQ(values.size(), other.size()) << name;
    if (values.empty()) continue;
    ASSERT_EQ(std::memcmp(values.data(), other.data(), values.size() * sizeof(double)), 0) << name;
  }
}

void check_graph(std::uint64_t seed, Seen& seen) {
  RandomGraph random(seed);
  check_inference(random);
  if (testing::Test::HasFatalFailure()) return;
  constexpr int kSteps = 3;
  random.place(1, false);
  const auto whole = reference::interpret(partition(random.graph(), {}), random.run(kSteps, seed));
  PartitionOptions options;
  options.ranks = 2 + int(seed % 3);
  for (int rank = 0; rank < options.ranks; ++rank) options.hosts.push_back(rank % 2);
  options.may_view = seed % 5 != 0;
  random.place(options.ranks, seed % 7 == 0);
  const Plan plan = partition(random.graph(), options);
  count(plan, seen);
  check_credits(plan, seen);
  if (testing::Test::HasFatalFailure()) return;
  check_same(whole, reference::interpret(plan, random.run(kSteps, seed + 1)));
}

TEST(RandomGraphs, AreInferredAndPartitionedRight) {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const std::uint64_t first =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << kGraphs << " seeds from " << first << " on\n";
  Seen seen;
  for (std::uint64_t seed = first; seed < first + kGraphs; ++seed) {
    SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed));
    try {
      check_graph(seed, seen);
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
    if (HasFatalFailure()) return;
  }
  std::cout << "edges: static " << seen.fixed << " (no credits " << seen.free << "), dynamic "
            << seen.dynamic << ", viewed " << seen.viewed << " (no credits " << seen.free_views
            << "); in place " << seen.in_place << ", overwriting " << seen.overwrites
            << ", assignments " << seen.assignments << '\n';
  EXPECT_EQ(seen.graphs, int(kGraphs));
  for (const int one :
       {seen.changing, seen.fixed - seen.free, seen.free, seen.dynamic, seen.free_views,
        seen.viewed - seen.free_views, seen.in_place, seen.overwrites, seen.assignments})
    EXPECT_GT(one, int(kGraphs) / 200);
}

}  // namespace
}  // namespace weft::dataflow
