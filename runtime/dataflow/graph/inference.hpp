// Types of one node's outputs by its definition's shape function.
#pragma once

#include "weft/graph.hpp"

namespace weft::dataflow {

/// "node 'fc1' (MatMul)".
std::string node_text(const Node& node);

/// Infers the types of `node`'s outputs from those of its inputs. Throws Error(bad_argument) for
/// what the shape function refuses, and for results that are impossible in themselves: a wrong
/// number of outputs or of dimensions.
std::vector<TensorType> infer_node(const Node& node,
                                   std::span<const std::optional<TensorType>> inputs);

/// Throws Error(bad_argument) if the shape function contradicts itself: two calls with the same
/// inputs differ, or sizes that it called known become others once open sizes of the inputs are
/// filled in.
void audit_node(const Node& node, std::span<const std::optional<TensorType>> inputs);

}  // namespace weft::dataflow
