// Partition of a dataflow graph over ranks, and the plan of its transfers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/api.hpp"
#include "weft/graph.hpp"

namespace weft::dataflow {

/// The way of a tensor from the rank that produces it to one rank that reads it.
enum class EdgeKind : std::uint8_t {
  fixed,    ///< static shape: RdmaSend puts into a slot that exists before step 1
  dynamic,  ///< RdmaSendDyn announces the tensor's shape and place; RdmaRecvDyn reads it
  viewed    ///< Publish makes it visible; View views it in the producer's memory
};
/// "static", "dynamic" or "viewed".
WEFT_API std::string_view name(EdgeKind kind) noexcept;

/// One cut edge: a tensor that goes once to one rank, whatever the number of its readers there.
struct Edge {
  TensorId tensor;   ///< in the whole graph
  std::string name;  ///< "<node>:<output>"
  int from = -1;
  int to = -1;
  TensorType type;
  EdgeKind kind = EdgeKind::dynamic;
  std::string why;            ///< the reason for the kind
  bool needs_credits = true;  ///< false only with a proof; `why_credits` gives the reason
  std::string why_credits;
  std::uint64_t bytes = 0;  ///< of one transfer; 0 if the size is open
  NodeId send = -1;         ///< in the part of rank `from`
  NodeId receive = -1;      ///< in the part of rank `to`
};

/// Registered memory that a rank's static and viewed edges need, in bytes. Dynamic edges come on
/// top of it, as large as their tensors happen to be.
struct WEFT_API MemoryNeed {
  std::uint64_t received = 0;  ///< slots of this rank, one buffer each
  std::uint64_t sent = 0;      ///< tensors that this rank puts, each counted once
  /// Published slots: one buffer for a feed or variable, which keeps its memory, two for others;
  /// edges of one tensor or of its aliases share a slot.
  std::uint64_t published = 0;
  std::size_t dynamic = 0;  ///< number of dynamic edges, at both ends
  /// At most 2^64 - 1.
  std::uint64_t total() const noexcept;
};

/// A node whose output takes the memory of an input: the only cases in which an executor may give
/// both the same memory where the definition says that it may.
struct InPlace {
  NodeId node = -1;
  std::size_t input = 0;
  std::size_t output = 0;
};

/// The share of one rank.
struct Part {
  /// This rank's nodes, and a node for each end of its edges ("weft.RdmaSend" and its like, whose
  /// attribute `edge` is the index in Plan::edges). Node::after orders the readers of a variable
  /// before its assignment.
  Graph graph;
  std::vector<NodeId> origin;  ///< each node's number in the whole graph; -1 for sends and receives
  std::vector<InPlace> in_place;
  MemoryNeed memory;
};

/// The analysis' result. A value: later changes of the graph don't reach it. Not weft::Plan, which
/// is a collective: a program that uses both namespaces names one of the two in full.
struct WEFT_API Plan {
  std::vector<Part> parts;  ///< by rank
  std::vector<Edge> edges;

  /// Edges, reasons, bytes and memory per rank, for people.
  std::string text() const;
  /// The same for programs: {"edges": [...], "ranks": [...]}.
  std::string json() const;
  /// The parts and edges for Graphviz.
  std::string dot() const;
};

/// The graph before partition, for Graphviz.
WEFT_API std::string dot(const Graph& graph);

struct PartitionOptions {
  int ranks = 1;
  /// The host of each rank, by any numbers: ranks of one host share memory. Empty: every rank has a
  /// host of its own.
  std::vector<int> hosts{};
  /// False: ranks of one host send as well.
  bool may_view = true;
  /// The largest MemoryNeed::total() of each rank, in bytes; empty: no limit.
  std::vector<std::uint64_t> arena_bytes{};
};

/// Cuts `graph` by the placement of its nodes, replaces each cut edge by a send and a receive, and
/// decides the kind of each edge:
/// - GPU memory at either end, or a shape that changes: dynamic.
/// - Ranks of one host, memory of static shape that is the producer's own, readers that only read,
///   and no assignment that may come before a reader: viewed.
/// - All others: static.
/// A static or viewed edge has no credits if the graph proves that every reader of the received
/// tensor has ended before the producer sends again, by the contract of Graph: a rank begins a step
/// after its nodes of the step before. For views of a feed or variable: before the producer's step
/// ends, since the application may write it then. A fetch ends when the application has its value.
/// A received tensor is not overwritten in place, except by an operator that must.
///
/// Throws Error(bad_argument), naming the node, for a cycle, a node without a placement or on a
/// rank that doesn't exist, an assignment on another rank than its variable, Node::after across
/// ranks, and all that Graph::infer refuses. Throws Error(exhausted) if a rank needs more than its
/// `arena_bytes`; the message has the bytes of every such rank.
WEFT_API Plan partition(const Graph& graph, const PartitionOptions& options);

struct ReplicaOptions {
  enum class Spread : std::uint8_t {
    round_robin,  ///< the variables in order of the graph, one to each server in turn
    by_bytes      ///< the largest first, each to the server with the fewest bytes
  };
  std::vector<int> workers{};  ///< ranks; may be servers as well
  /// Empty: each worker has variables of its own, and assigns them its own values.
  std::vector<int> servers{};
  Spread spread = Spread::round_robin;
  bool mean = true;  ///< assignments get the replicas' mean; false: their sum
};

/// A data-parallel copy of a graph.
struct Replicas {
  Graph graph;
  /// [worker][node]: the node of each node of the model; -1 for variables and assignments, which
  /// `servers` has if there are servers.
  std::vector<std::vector<NodeId>> workers;
  std::vector<NodeId> servers;  ///< [node]: variables and assignments; -1 for all others
};

/// Copies `model` once per worker. Variables, and the nodes that assign them, exist once, on a
/// server; variables that one node assigns share a server. A tensor that the workers compute for an
/// assignment is summed up there in the order of the workers, so that all placements give the same
/// bits, and divided by their number if `mean`. Without servers all is at the workers: for
/// variables in a table (weft/variables.hpp). The copies are called "<node>@<rank>". Nodes keep
/// their Memory. Throws Error(bad_argument), naming the node, if one is placed on a rank already,
/// or if an assignment needs the sum of integers.
WEFT_API Replicas replicate(const Graph& model, const ReplicaOptions& options);

}  // namespace weft::dataflow
