// The proof that a static edge needs no credits (docs/decisions/051-credit-free-edges.md).
#include <fmt/format.h>

#include <algorithm>

#include "runtime/dataflow/graph/edges.hpp"

namespace weft::dataflow {
namespace {

using RankSet = std::vector<bool>;

void unite(RankSet& all, const RankSet& more) {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (more[i]) all[i] = true;
}

/// All parts' nodes, numbered through, with their order within a step.
class StepOrder {
 public:
  explicit StepOrder(const Plan& plan) : plan_(plan) {
    for (const Part& part : plan.parts) {
      first_.push_back(count_);
      count_ += part.graph.size();
    }
    earlier_.resize(count_);
    for (std::size_t rank = 0; rank < plan.parts.size(); ++rank) add_part(rank);
    for (const Edge& edge : plan.edges)
      earlier_[number(edge.to, edge.receive)].push_back(number(edge.from, edge.send));
    sends_.resize(count_);
    for (const Edge& edge : plan.edges) sends_[number(edge.from, edge.send)] = true;
    sort();
  }

  std::size_t number(int rank, NodeId node) const {
    return first_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(node);
  }

  /// The ranks with a node that comes before each node in the step; its own rank included.
  std::vector<RankSet> ranks_before() const {
    std::vector<RankSet> sets = own_ranks();
    for (const std::size_t node : order_)
      for (const std::size_t earlier : earlier_[node]) unite(sets[node], sets[earlier]);
    return sets;
  }

  /// The ranks with a node that begins after each node in the step has ended; its own rank
  /// included.
  std::vector<RankSet> ranks_after() const {
    std::vector<RankSet> ended = own_ranks();
    std::vector<RankSet> begun = ended;
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      for (const std::size_t earlier : earlier_[*node]) {
        unite(begun[earlier], begun[*node]);
        // A tensor may be received before its send knows that it has ended.
        if (!sends_[earlier] || rank_of(earlier) == rank_of(*node))
          unite(ended[earlier], begun[*node]);
      }
    }
    return ended;
  }

 private:
  void add_part(std::size_t rank) {
    const Graph& graph = plan_.parts[rank].graph;
    for (std::size_t i = 0; i < graph.size(); ++i) {
      auto& earlier = earlier_[first_[rank] + i];
      const auto add = [&](NodeId node) {
        earlier.push_back(first_[rank] + static_cast<std::size_t>(node));
      };
      for (const TensorId input : graph.nodes()[i].inputs)
        if (!input.none()) add(input.node);
      for (const NodeId node : graph.nodes()[i].after) add(node);
    }
  }

  std::size_t rank_of(std::size_t node) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(first_, node) - first_.begin()) - 1;
  }

  void sort() {
    std::vector<std::vector<std::size_t>> later(count_);
    std::vector<std::size_t> waits_for(count_);
    for (std::size_t node = 0; node < count_; ++node) {
      waits_for[node] = earlier_[node].size();
      for (const std::size_t earlier : earlier_[node]) later[earlier].push_back(node);
      if (waits_for[node] == 0) order_.push_back(node);
    }
    for (std::size_t i = 0; i < order_.size(); ++i)
      for (const std::size_t next : later[order_[i]])
        if (--waits_for[next] == 0) order_.push_back(next);
  }

  std::vector<RankSet> own_ranks() const {
    std::vector<RankSet> sets(count_, RankSet(plan_.parts.size(), false));
    for (std::size_t rank = 0; rank < plan_.parts.size(); ++rank)
      for (std::size_t i = 0; i < plan_.parts[rank].graph.size(); ++i)
        sets[first_[rank] + i][rank] = true;
    return sets;
  }

  const Plan& plan_;
  std::vector<std::size_t> first_;  ///< the number of each rank's first node
  std::size_t count_ = 0;
  std::vector<std::vector<std::size_t>> earlier_;
  std::vector<std::size_t> order_;
  std::vector<bool> sends_;  ///< by node
};

int common_rank(const RankSet& a, const RankSet& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] && b[i]) return static_cast<int>(i);
  return -1;
}

/// The nodes that touch the memory of a received tensor, through aliases and overwriting too.
std::vector<NodeId> users_of(const Graph& graph, const Readers& readers, NodeId receive) {
  std::vector<NodeId> users;
  for (const Reader reader : readers_before(graph, readers, {receive, 0}, -1))
    users.push_back(reader.node);
  return users;
}

}  // namespace

void prove_credit_free(Plan& plan) {
  const StepOrder order(plan);
  const std::vector<RankSet> before = order.ranks_before();
  const std::vector<RankSet> after = order.ranks_after();
  std::vector<Readers> readers;
  for (const Part& part : plan.parts) readers.push_back(readers_of(part.graph));
  for (Edge& edge : plan.edges) {
    if (edge.kind != EdgeKind::fixed) continue;
    const Graph& graph = plan.parts[static_cast<std::size_t>(edge.to)].graph;
    const RankSet& sends_after = before[order.number(edge.from, edge.send)];
    edge.needs_credits = false;
    std::string through;
    for (const NodeId user :
         users_of(graph, readers[static_cast<std::size_t>(edge.to)], edge.receive)) {
      // The user ends before some node of this rank does, which ends before the rank's next step,
      // in which a node comes before the send.
      const int rank = common_rank(after[order.number(edge.to, user)], sends_after);
      if (rank < 0) {
        edge.needs_credits = true;
        edge.why_credits = fmt::format("'{}' may still read when '{}' sends again",
                                       graph.node(user).name, edge.name);
        break;
      }
      through = fmt::format("rank {}'s next step follows '{}' and precedes the next send", rank,
                            graph.node(user).name);
    }
    if (!edge.needs_credits) edge.why_credits = through;
  }
}

}  // namespace weft::dataflow
