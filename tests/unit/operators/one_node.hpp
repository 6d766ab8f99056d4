// One node and its kernel.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/operators.hpp"

namespace weft::dataflow {

/// A graph of one node and its feeds.
class OneNode {
 public:
  OneNode(const std::string& definition, const std::vector<Tensor>& inputs,
          const Attributes& attributes = {}, const std::string& name = "node")
      : inputs_(inputs) {
    std::vector<TensorId> feeds;
    for (const Tensor& input : inputs)
      feeds.push_back(
          graph_.feed("x" + std::to_string(feeds.size()), input.dtype(), input.shape()));
    id_ = graph_.add(definition, feeds, attributes, name).node;
  }

  const Node& node() const { return graph_.node(id_); }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  const Kernel& kernel(const Kernels& kernels) const {
    return *kernels.find(node().definition->name);
  }

 private:
  Graph graph_;
  std::vector<Tensor> inputs_;
  NodeId id_ = 0;
};

}  // namespace weft::dataflow
