// The memory of a part's tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/dataflow/execute/program.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// Plain memory, 64-byte aligned.
class PlainStorage : public Storage {
 public:
  /// Throws std::bad_alloc.
  explicit PlainStorage(std::size_t bytes);
  ~PlainStorage() override;
  PlainStorage(const PlainStorage&) = delete;
  PlainStorage& operator=(const PlainStorage&) = delete;
};

/// A tensor in plain memory. Throws std::bad_alloc.
Tensor plain_tensor(DType dtype, const Shape& shape);
/// Writes the tensor's elements to `to`, in row-major order.
void copy_elements(const Tensor& tensor, std::byte* to) noexcept;
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
