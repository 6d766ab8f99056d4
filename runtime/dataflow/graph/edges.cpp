// Cut edges and their kinds.
#include "runtime/dataflow/graph/edges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

class EdgeFinder {
 public:
  EdgeFinder(const Graph& graph, const PartitionOptions& options)
      : graph_(graph), options_(options), readers_(readers_of(graph)) {}

  void add_edges(std::vector<Edge>& edges, TensorId tensor) const {
    const int from = rank_of(tensor.node);
    std::set<int> ranks;
    for (const Reader reader : readers(tensor)) ranks.insert(rank_of(reader.node));
    ranks.erase(from);
    for (const int to : ranks) {
      Edge edge;
      edge.tensor = tensor;
      edge.name = fmt::format("{}:{}", graph_.node(tensor.node).name, tensor.output);
      edge.from = from;
      edge.to = to;
      edge.type = graph_.type(tensor);
      edge.bytes = bytes_of(edge.type);
      decide(edge);
      edges.push_back(std::move(edge));
    }
  }

 private:
  int rank_of(NodeId node) const { return graph_.node(node).placement.rank; }
  const std::vector<Reader>& readers(TensorId tensor) const {
    return readers_[static_cast<std::size_t>(tensor.node)][static_cast<std::size_t>(tensor.output)];
  }
  bool one_host(int a, int b) const {
    return !options_.hosts.empty() && options_.hosts[static_cast<std::size_t>(a)] ==
                                          options_.hosts[static_cast<std::size_t>(b)];
  }

  void decide(Edge& edge) const {
    if (const NodeId on_gpu = gpu_node(edge); on_gpu >= 0) {
      edge.kind = EdgeKind::dynamic;
      edge.why = fmt::format("'{}' works in GPU memory", graph_.node(on_gpu).name);
    } else if (!edge.type.shape.known()) {
      edge.kind = EdgeKind::dynamic;
      edge.why = "its shape " + edge.type.shape.text() + " may change";
    } else {
      const std::string against = against_view(edge);
      edge.kind = against.empty() ? EdgeKind::viewed : EdgeKind::fixed;
      edge.why = against.empty() ? "its shape never changes, and its readers only read it"
                                 : "its shape never changes; no view: " + against;
    }
    edge.why_credits = "the release tells that it has been read";
  }

  NodeId gpu_node(const Edge& edge) const {
    if (graph_.node(edge.tensor.node).placement.memory == Memory::gpu) return edge.tensor.node;
    for (const Reader reader : readers(edge.tensor))
      if (rank_of(reader.node) == edge.to &&
          graph_.node(reader.node).placement.memory == Memory::gpu)
        return reader.node;
    return -1;
  }

  /// The reason against a view; empty if there is none.
  std::string against_view(const Edge& edge) const {
    if (!options_.may_view) return "the options rule it out";
    if (!one_host(edge.from, edge.to)) return "the ranks share no memory";
    if (!is_own_memory(edge)) return "its memory is that of a received tensor";
    const TensorId root = storage_of(graph_, edge.tensor);
    if (!graph_.type(root).shape.known())
      return fmt::format("its memory is that of '{}', whose shape {} may change",
                         graph_.node(root.node).name, graph_.type(root).shape.text());
    std::vector<NodeId> viewers;
    if (const std::string against = find_viewers(edge, viewers); !against.empty()) return against;
    // The producer's memory must stay as it is while it is viewed.
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const auto writer = static_cast<NodeId>(i);
      if (!overwrites(writer, root)) continue;
      if (comes_from(edge.tensor, writer)) {
        // Only a variable keeps its memory in the next step.
        if (graph_.node(root.node).definition->name != "weft.Variable") continue;
        return fmt::format("'{}' overwrites it in the next step", graph_.node(writer).name);
      }
      for (const NodeId viewer : viewers)
        if (!is_before(viewer, writer))
          return fmt::format("'{}' may still read it when '{}' overwrites it",
                             graph_.node(viewer).name, graph_.node(writer).name);
    }
    return {};
  }

  /// True if the tensor's memory is the producer's own: no alias of what the rank received, which
  /// may have begun at this rank and come back.
  bool is_own_memory(const Edge& edge) const {
    const std::vector<NodeId> path = path_to_storage(graph_, edge.tensor);
    return std::all_of(path.begin(), path.end(),
                       [&](NodeId node) { return rank_of(node) == edge.from; });
  }

  /// Collects the nodes of rank `to` that read the tensor, through aliases too. Returns the reason
  /// against a view, or nothing.
  std::string find_viewers(const Edge& edge, std::vector<NodeId>& viewers) const {
    std::vector<TensorId> tensors{edge.tensor};
    for (std::size_t i = 0; i < tensors.size(); ++i)
      for (const Reader reader : readers(tensors[i])) {
        if (rank_of(reader.node) != edge.to) {
          if (i == 0) continue;  // another rank's edge
          return fmt::format("'{}' passes its memory on to rank {}",
                             graph_.node(tensors[i].node).name, rank_of(reader.node));
        }
        viewers.push_back(reader.node);
        for (const Reuse& reuse : graph_.node(reader.node).definition->reuses) {
          if (reuse.input != reader.input || reuse.kind == Reuse::Kind::may ||
              !applies(reuse, graph_.node(reader.node)))
            continue;
          if (reuse.kind == Reuse::Kind::must)
            return fmt::format("'{}' overwrites it", graph_.node(reader.node).name);
          tensors.push_back({reader.node, static_cast<std::int32_t>(reuse.output)});
        }
      }
    return {};
  }

  bool overwrites(NodeId node, TensorId root) const {
    const Node& one = graph_.node(node);
    return std::any_of(one.definition->reuses.begin(), one.definition->reuses.end(),
                       [&](const Reuse& reuse) {
                         return reuse.kind == Reuse::Kind::must && applies(reuse, one) &&
                                storage_of(graph_, one.inputs[reuse.input]) == root;
                       });
  }

  /// True if `tensor` is what `writer` wrote, directly or through aliases.
  bool comes_from(TensorId tensor, NodeId writer) const {
    const std::vector<NodeId> path = path_to_storage(graph_, tensor);
    return std::find(path.begin(), path.end(), writer) != path.end();
  }

  /// True if `later` depends on `node`.
  bool is_before(NodeId node, NodeId later) const {
    std::vector<NodeId> open{later};
    std::vector<bool> seen(graph_.size(), false);
    while (!open.empty()) {
      const NodeId at = open.back();
      open.pop_back();
      if (at == node) return true;
      if (seen[static_cast<std::size_t>(at)]) continue;
      seen[static_cast<std::size_t>(at)] = true;
      for (const TensorId input : graph_.node(at).inputs)
        if (!input.none()) open.push_back(input.node);
      for (const NodeId earlier : graph_.node(at).after) open.push_back(earlier);
    }
    return false;
  }

  const Graph& graph_;
  const PartitionOptions& options_;
  Readers readers_;
};

}  // namespace

std::string_view name(EdgeKind kind) noexcept {
  switch (kind) {
    case EdgeKind::fixed:
      return "static";
    case EdgeKind::dynamic:
      return "dynamic";
    case EdgeKind::viewed:
      return "viewed";
  }
  return "?";
}

std::uint64_t bytes_of(const TensorType& type) {
  if (!type.shape.known()) return 0;
  return static_cast<std::uint64_t>(type.shape.shape().elements()) * size_of(type.dtype);
}

std::vector<Edge> find_edges(const Graph& graph, const std::vector<NodeId>& order,
                             const PartitionOptions& options) {
  const EdgeFinder finder(graph, options);
  std::vector<Edge> edges;
  for (const NodeId node : order)
    for (std::size_t output = 0; output < graph.node(node).outputs.size(); ++output)
      finder.add_edges(edges, {node, static_cast<std::int32_t>(output)});
  return edges;
}

}  // namespace weft::dataflow
