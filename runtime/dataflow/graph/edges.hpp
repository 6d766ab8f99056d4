// The steps of partition().
#pragma once

#include "runtime/dataflow/graph/checks.hpp"
#include "weft/partition.hpp"

namespace weft::dataflow {

/// The edges that the placement cuts, in order of their producers, with their kinds and reasons.
std::vector<Edge> find_edges(const Graph& graph, const std::vector<NodeId>& order,
                             const PartitionOptions& options);

/// The tensor of the producer's part whose memory the readers of a viewed edge view. Edges of one
/// such tensor share its published slot.
TensorId published_root(const Plan& plan, const Edge& edge);

/// True for a tensor that has the same memory in each step: a feed or a variable. Its published
/// slot has one buffer, that of other tensors two.
bool keeps_memory(const Graph& part, TensorId root);

/// Sets `needs_credits` of the static and viewed edges of a plan whose parts are complete.
void prove_credit_free(Plan& plan);

/// The nodes of a part that may work in place.
std::vector<InPlace> find_in_place(const Graph& part);

/// Sets the parts' memory needs. Throws Error(exhausted) for those above `limits`.
void measure_memory(Plan& plan, const std::vector<std::uint64_t>& limits);

/// Lets each node that assigns a variable run after the other readers of the old value.
void order_assignments(Graph& graph);

/// Bytes of a tensor; 0 if its size is open.
std::uint64_t bytes_of(const TensorType& type);

}  // namespace weft::dataflow
