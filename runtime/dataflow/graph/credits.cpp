// The proof that a static or viewed edge needs no credits (docs/decisions/051-credit-free-edges.md,
// 056-views-of-a-step.md).
#include <fmt/format.h>

#include <algorithm>
#include <map>

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

/// Proves of single edges that every user of a received tensor has ended before its memory at the
/// producer, or at the receiver, is written again.
class Prover {
 public:
  explicit Prover(const Plan& plan) : plan_(plan), order_(plan) {
    before_ = order_.ranks_before();
    after_ = order_.ranks_after();
    for (const Part& part : plan.parts) readers_.push_back(readers_of(part.graph));
    for (const Edge& edge : plan.edges)
      if (edge.kind == EdgeKind::viewed)
        views_[{edge.from, published_root(plan, edge)}].push_back(&edge);
  }

  void prove(Edge& edge) const {
    const Graph& graph = plan_.parts[static_cast<std::size_t>(edge.to)].graph;
    edge.needs_credits = false;
    for (const NodeId user :
         users_of(graph, readers_[static_cast<std::size_t>(edge.to)], edge.receive)) {
      const RankSet& after = after_[order_.number(edge.to, user)];
      const std::string& name = graph.node(user).name;
      edge.needs_credits = edge.kind == EdgeKind::viewed
                               ? !ends_before_publishing(edge, after, name)
                               : !ends_before_sending(edge, after, name);
      if (edge.needs_credits) return;
    }
  }

 private:
  int through(const Edge& sent, const RankSet& after) const {
    return common_rank(after, before_[order_.number(sent.from, sent.send)]);
  }

  bool ends_before_sending(Edge& edge, const RankSet& after, const std::string& user) const {
    // The user ends before some node of this rank does, which ends before the rank's next step,
    // in which a node comes before the send.
    const int rank = through(edge, after);
    edge.why_credits =
        rank < 0 ? fmt::format("'{}' may still read when '{}' sends again", user, edge.name)
                 : fmt::format("rank {}'s next step follows '{}' and precedes the next send", rank,
                               user);
    return rank >= 0;
  }

  bool ends_before_publishing(Edge& edge, const RankSet& after, const std::string& user) const {
    const TensorId root = published_root(plan_, edge);
    if (keeps_memory(plan_.parts[static_cast<std::size_t>(edge.from)].graph, root)) {
      // Between steps the application may write the memory.
      const bool has_ended = after[static_cast<std::size_t>(edge.from)];
      edge.why_credits =
          has_ended ? fmt::format("rank {}'s step ends after '{}'", edge.from, user)
                    : fmt::format("'{}' may still read when rank {}'s step ends", user, edge.from);
      return has_ended;
    }
    // Whichever send comes first publishes for all edges of this memory.
    int rank = -1;
    for (const Edge* other : views_.at({edge.from, root})) {
      rank = through(*other, after);
      if (rank < 0) break;
    }
    edge.why_credits =
        rank < 0 ? fmt::format("'{}' may still read when '{}' is published again", user, edge.name)
                 : fmt::format("rank {}'s next step follows '{}' and precedes the next version",
                               rank, user);
    return rank >= 0;
  }

  const Plan& plan_;
  const StepOrder order_;
  std::vector<RankSet> before_;
  std::vector<RankSet> after_;
  std::vector<Readers> readers_;
  std::map<std::pair<int, TensorId>, std::vector<const Edge*>> views_;  ///< by rank and memory
};

}  // namespace

void prove_credit_free(Plan& plan) {
  const Prover prover(plan);
  for (Edge& edge : plan.edges)
    if (edge.kind != EdgeKind::dynamic) prover.prove(edge);
}

}  // namespace weft::dataflow
