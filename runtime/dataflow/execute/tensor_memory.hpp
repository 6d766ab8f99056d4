// The memory of a part's tensors.
#pragma once

#include <vector>

#include "runtime/dataflow/execute/program.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// A tensor in plain memory, 64-byte aligned. Throws std::bad_alloc.
Tensor plain_tensor(DType dtype, const Shape& shape);
/// A dense copy in plain memory.
Tensor copy_of(const Tensor& tensor);

/// Tensors whose shape is static keep their memory in all steps; others get new memory in each.
/// Thread-safety: different nodes by different threads.
class TensorMemory {
 public:
  TensorMemory(World& world, const std::vector<Instruction>& program)
      : world_(world), program_(program), kept_(program.size()) {}

  /// Memory for an output that has a home of its own.
  Tensor get(NodeId node, std::size_t output, DType dtype, const Shape& shape);
  /// The memory of a variable, zeros at first.
  const Tensor& variable(NodeId node);

 private:
  World& world_;
  const std::vector<Instruction>& program_;
  std::vector<std::vector<Tensor>> kept_;
};

}  // namespace weft::dataflow
