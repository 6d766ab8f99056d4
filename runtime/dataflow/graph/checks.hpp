// Checks of a graph as a whole.
#pragma once

#include "weft/graph.hpp"

namespace weft::dataflow {

/// For each node and output, the readers: (node, input) pairs, in order of the nodes.
struct Reader {
  NodeId node = -1;
  std::size_t input = 0;
};
using Readers = std::vector<std::vector<std::vector<Reader>>>;
Readers readers_of(const Graph& graph);

/// False for a reuse of an optional input or output that the node leaves out.
bool applies(const Reuse& reuse, const Node& node) noexcept;

/// The tensor whose memory `tensor` is, through aliases and overwriting operators.
TensorId storage_of(const Graph& graph, TensorId tensor);

/// The nodes from that of `tensor` through aliases and overwriting operators to that of its
/// storage_of().
std::vector<NodeId> path_to_storage(const Graph& graph, TensorId tensor);

/// Throws Error(bad_argument) that names the node, if a variable is assigned twice, a reader of a
/// variable's old value depends on its new one, or an operator overwrites a tensor that has another
/// reader, is a feed, or is not there.
void check_memory(const Graph& graph);

/// The readers of the memory of `root` as it is before `writer` overwrites it, `writer` included.
std::vector<Reader> readers_before(const Graph& graph, const Readers& readers, TensorId root,
                                   NodeId writer);

/// The variables that `node` overwrites: inputs of kind `must` whose memory is a variable's.
std::vector<TensorId> assigned_variables(const Graph& graph, NodeId node);

}  // namespace weft::dataflow
