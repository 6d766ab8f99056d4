// The memory of a part's tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/dataflow/execute/program.hpp"
#include "runtime/dataflow/execute/publications.hpp"
#include "runtime/dataflow/execute/tracing_state.hpp"
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

/// Throws Error(exhausted) for a size that is asked by mistake.
std::size_t checked_bytes(DType dtype, const Shape& shape);
/// A tensor in plain memory. Throws std::bad_alloc.
Tensor plain_tensor(DType dtype, const Shape& shape);
/// A tensor in plain memory that the world registers on its own, when it is first put. Throws
/// Error, std::bad_alloc.
Tensor adopted_tensor(World& world, DType dtype, const Shape& shape);
/// Writes the tensor's elements to `to`, in row-major order.
void copy_elements(const Tensor& tensor, std::byte* to) noexcept;
/// A dense copy in plain memory.
Tensor copy_of(const Tensor& tensor);

/// Tensors whose shape is static keep their memory in all steps, but those that other ranks view
/// have two; others get new memory in each.
/// Thread-safety: different nodes by different threads.
class TensorMemory {
 public:
  TensorMemory(World& world, const std::vector<Instruction>& program,
               const Publications& publications, SentMemory sent);

  /// Memory for an output that has a home of its own. Throws Error(flow_overrun): as
  /// Publication::buffer().
  Tensor get(NodeId node, std::size_t output, DType dtype, const Shape& shape);
  /// The memory of a variable, zeros at first.
  Tensor variable(NodeId node);
  /// Gives a variable other memory, between steps.
  void bind(NodeId node, const Tensor& memory);
  /// Memory for the node's allocation of that number in its run.
  Tensor allocate(NodeId node, std::uint32_t allocation, DType dtype, const Shape& shape);

  /// Before a send. Traces the tensor's site.
  void note_sent(const Tensor& tensor) noexcept;
  void end_step() { sites_->next_step(); }
  TracingReport sites() const;

 private:
  /// Outputs of its kernel are traced like the kernel's own allocations.
  bool is_site(const Instruction& one) const noexcept {
    return sent_ == SentMemory::traced && one.work == Work::kernel;
  }
  detail::Site& site(NodeId node, std::uint32_t allocation) {
    return sites_->site(*nodes_[static_cast<std::size_t>(node)], allocation);
  }
  Tensor allocate_at(detail::Site& site, DType dtype, const Shape& shape);
  Tensor make(NodeId node, std::size_t output, DType dtype, const Shape& shape);

  World& world_;
  const std::vector<Instruction>& program_;
  const Publications& publications_;
  const SentMemory sent_;
  const std::shared_ptr<detail::TracingState> sites_;
  std::vector<detail::TracedNode*> nodes_;  ///< by node
  std::vector<std::vector<Tensor>> kept_;
};

}  // namespace weft::dataflow
