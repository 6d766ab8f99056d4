// Parts of a graph, joined by sends and receives.
#include "weft/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "runtime/dataflow/graph/edges.hpp"
#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

void check_options(const PartitionOptions& options) {
  const auto ranks = static_cast<std::size_t>(options.ranks);
  if (options.ranks < 1 || (!options.hosts.empty() && options.hosts.size() != ranks) ||
      (!options.arena_bytes.empty() && options.arena_bytes.size() != ranks))
    throw_error(Code::bad_argument, "partition",
                fmt::format("{} ranks, {} hosts, {} arenas: there must be one per rank, or none",
                            options.ranks, options.hosts.size(), options.arena_bytes.size()));
}

// By EdgeKind.
constexpr std::array kSends{"weft.RdmaSend", "weft.RdmaSendDyn", "weft.Publish"};
constexpr std::array kReceives{"weft.RdmaRecv", "weft.RdmaRecvDyn", "weft.View"};

void check_origin(const Graph& graph) {
  for (const Node& node : graph.nodes())
    for (const auto& made : {kSends, kReceives})
      if (std::ranges::find(made, node.definition->name) != made.end())
        throw_error(Code::bad_argument, "partition",
                    fmt::format("{} is one that partition makes itself", node_text(node)),
                    "place its reader on the other rank: partition adds both ends");
}

/// The node, the variable that it assigns and the aliases between them share memory, hence a rank.
void check_assignment(const Graph& graph, const Node& node) {
  for (const Reuse& reuse : node.definition->reuses) {
    if (reuse.kind != Reuse::Kind::must || !applies(reuse, node)) continue;
    const std::vector<NodeId> path = path_to_storage(graph, node.inputs[reuse.input]);
    const Node& variable = graph.node(path.back());
    if (variable.definition->name != "weft.Variable") continue;
    for (const NodeId id : path)
      if (graph.node(id).placement.rank != node.placement.rank)
        throw_error(Code::bad_argument, "partition",
                    fmt::format("{} on rank {} assigns {}; {} is on rank {}", node_text(node),
                                node.placement.rank, node_text(variable), node_text(graph.node(id)),
                                graph.node(id).placement.rank),
                    "place them on one rank");
  }
}

void check_placement(const Graph& graph, const PartitionOptions& options) {
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.nodes()[i];
    const int rank = node.placement.rank;
    if (rank < 0)
      throw_error(Code::bad_argument, "partition", node_text(node) + " has no placement",
                  "place it by Graph::place or place_next, or use replicate()");
    if (rank >= options.ranks)
      throw_error(Code::bad_argument, "partition",
                  fmt::format("{} is placed on rank {}; there are {} ranks", node_text(node), rank,
                              options.ranks));
    check_assignment(graph, node);
    for (const NodeId earlier : node.after)
      if (graph.node(earlier).placement.rank != rank)
        throw_error(
            Code::bad_argument, "partition",
            fmt::format("{} on rank {} is to run after {} on rank {}", node_text(node), rank,
                        node_text(graph.node(earlier)), graph.node(earlier).placement.rank),
            "let it read a tensor of the other node instead");
  }
}

class PartBuilder {
 public:
  PartBuilder(const Graph& graph, Plan& plan, int ranks)
      : graph_(graph), plan_(plan), moved_(graph.size(), -1) {
    for (int rank = 0; rank < ranks; ++rank)
      plan.parts.push_back({Graph(graph.definitions()), {}, {}, {}});
    for (std::size_t i = 0; i < plan.edges.size(); ++i)
      edges_[plan.edges[i].tensor.node].push_back(i);
  }

  void add(NodeId id) {
    copy(id);
    const auto edges = edges_.find(id);
    if (edges == edges_.end()) return;
    for (const std::size_t edge : edges->second) add_ends(edge);
  }

 private:
  Part& part(int rank) { return plan_.parts[static_cast<std::size_t>(rank)]; }

  void copy(NodeId id) {
    const Node& node = graph_.node(id);
    const int rank = node.placement.rank;
    std::vector<TensorId> inputs;
    for (const TensorId input : node.inputs) inputs.push_back(moved(input, rank));
    Graph& graph = part(rank).graph;
    graph.place_next(node.placement);
    const NodeId copied = graph.add(node.definition->name, inputs, node.attributes, node.name).node;
    for (const NodeId earlier : node.after)
      graph.run_after(copied, moved_[static_cast<std::size_t>(earlier)]);
    moved_[static_cast<std::size_t>(id)] = copied;
    part(rank).origin.push_back(id);
  }

  /// `tensor` of the whole graph, as rank `rank` has it.
  TensorId moved(TensorId tensor, int rank) const {
    if (tensor.none()) return tensor;
    if (graph_.node(tensor.node).placement.rank == rank)
      return {moved_[static_cast<std::size_t>(tensor.node)], tensor.output};
    return received_.at({tensor, rank});
  }

  void add_ends(std::size_t index) {
    Edge& edge = plan_.edges[index];
    const auto kind = static_cast<std::size_t>(edge.kind);
    const auto number = static_cast<std::int64_t>(index);
    Part& from = part(edge.from);
    Part& to = part(edge.to);
    from.graph.place_next(graph_.node(edge.tensor.node).placement);
    edge.send = from.graph
                    .add(kSends[kind], {moved(edge.tensor, edge.from)}, {{"edge", number}},
                         fmt::format("send {} to {}", edge.name, edge.to))
                    .node;
    from.origin.push_back(-1);
    to.graph.place_next({edge.to, Memory::host});
    const TensorId received = to.graph.add(
        kReceives[kind], {},
        {{"edge", number},
         {"dtype", std::string(name(edge.type.dtype))},
         {"shape", Sizes(edge.type.shape.sizes().begin(), edge.type.shape.sizes().end())}},
        fmt::format("receive {} from {}", edge.name, edge.from));
    edge.receive = received.node;
    to.origin.push_back(-1);
    received_[{edge.tensor, edge.to}] = received;
  }

  const Graph& graph_;
  Plan& plan_;
  std::vector<NodeId> moved_;
  std::map<NodeId, std::vector<std::size_t>> edges_;
  std::map<std::pair<TensorId, int>, TensorId> received_;
};

}  // namespace

void order_assignments(Graph& graph) {
  const Readers readers = readers_of(graph);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const auto writer = static_cast<NodeId>(i);
    for (const TensorId variable : assigned_variables(graph, writer))
      for (const Reader reader : readers_before(graph, readers, variable, writer))
        if (reader.node != writer) graph.run_after(writer, reader.node);
  }
}

Plan partition(const Graph& graph, const PartitionOptions& options) {
  return control_call("partition", [&] {
    check_options(options);
    check_origin(graph);
    Graph whole = graph;
    whole.infer();
    check_placement(whole, options);
    const std::vector<NodeId> order = whole.order();
    Plan plan;
    plan.edges = find_edges(whole, order, options);
    PartBuilder builder(whole, plan, options.ranks);
    for (const NodeId id : order) builder.add(id);
    for (Part& part : plan.parts) {
      order_assignments(part.graph);
      part.in_place = find_in_place(part.graph);
    }
    prove_credit_free(plan);
    measure_memory(plan, options.arena_bytes);
    return plan;
  });
}

}  // namespace weft::dataflow
