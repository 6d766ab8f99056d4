// Kernels of weft::operators beside those of the reference interpreter.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/dataflow/cases.hpp"
#include "weft/operators.hpp"

namespace weft::dataflow {

/// Runs `kernel` on a node with these inputs, in step `step`. Output 0 gets the memory of a copy of
/// input `in_place`, if that isn't -1.
std::vector<Tensor> outputs_of(const Kernel& kernel, const Node& node, std::vector<Tensor> inputs,
                               int in_place = -1, std::uint64_t step = 0);

/// A graph whose nodes run one by one: by the reference, and each also by weft::operators.
class Compared {
 public:
  explicit Compared(Graph& graph) : graph_(graph) {}

  void give(TensorId tensor, const Tensor& value) { values_[tensor] = value; }
  /// Expects equal results of both kernels for every node, in place too, but for rounding.
  void run();

 private:
  void compare(const Node& node, const std::vector<Tensor>& inputs,
               const std::vector<Tensor>& expected) const;

  Graph& graph_;
  std::map<TensorId, Tensor> values_;
};

/// Compares one operator and, if it has one, its gradient, on random numbers.
void compare_case(const reference::Case& one, std::uint64_t seed);

/// A dense tensor of f32 in [-1, 1].
Tensor random_tensor(const Shape& shape, std::mt19937_64& random);

}  // namespace weft::dataflow
