// Kernels, and what they are called with.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "runtime/dataflow/execute/tensor_memory.hpp"
#include "runtime/dataflow/graph/inference.hpp"
#include "weft/executor.hpp"

namespace weft::dataflow {

KernelCall::KernelCall(const Node& node, std::vector<Tensor> inputs, Allocate outputs,
                       AllocateOwn own, std::uint64_t step)
    : node_(node),
      inputs_(std::move(inputs)),
      allocate_(std::move(outputs)),
      allocate_own_(std::move(own)),
      step_(step),
      outputs_(node.outputs.size()) {
  if (!allocate_) throw_error(Code::bad_argument, "kernel", "there is nothing to allocate with");
}

bool KernelCall::has(std::size_t i) const noexcept {
  return i < node_.inputs.size() && !node_.inputs[i].none();
}

const Shape& KernelCall::inferred(std::size_t i) {
  if (shapes_.empty()) {
    std::vector<std::optional<TensorType>> types;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      types.emplace_back();
      if (has(k)) types.back() = TensorType{inputs_[k].dtype(), inputs_[k].shape()};
    }
    for (const TensorType& type : infer_node(node_, types)) {
      shapes_.emplace_back();
      if (type.shape.known()) shapes_.back() = type.shape.shape();
    }
  }
  if (!shapes_[i])
    throw_error(Code::bad_argument, "kernel",
                fmt::format("the shape of output {} of {} depends on values", i, node_text(node_)),
                "give the shape: KernelCall::output(i, dtype, shape)");
  return *shapes_[i];
}

const Tensor& KernelCall::output(std::size_t i) {
  if (i < outputs_.size() && outputs_[i]) return *outputs_[i];
  if (i >= outputs_.size())
    throw_error(Code::bad_argument, "kernel",
                fmt::format("{} has no output {}", node_text(node_), i));
  const TensorType& type = node_.outputs[i];
  return output(i, type.dtype, type.shape.known() ? type.shape.shape() : inferred(i));
}

void KernelCall::check_type(std::size_t i, DType dtype, const Shape& shape) const {
  if (i >= outputs_.size())
    throw_error(Code::bad_argument, "kernel",
                fmt::format("{} has no output {}", node_text(node_), i));
  const TensorType& type = node_.outputs[i];
  if (dtype != type.dtype || !type.shape.fits(shape))
    throw_error(Code::mismatch, "kernel",
                fmt::format("the kernel gives {}{} as output {} of {}; the graph says {}",
                            name(dtype), shape.text(), i, node_text(node_), type.text()));
}

const Tensor& KernelCall::output(std::size_t i, DType dtype, const Shape& shape) {
  check_type(i, dtype, shape);
  if (!outputs_[i] || outputs_[i]->shape() != shape) outputs_[i] = allocate_(i, dtype, shape);
  return *outputs_[i];
}

Tensor KernelCall::allocate(DType dtype, const Shape& shape) {
  check_dtype("kernel", dtype);
  return allocate_own_ ? allocate_own_(dtype, shape) : plain_tensor(dtype, shape);
}

void KernelCall::give(std::size_t i, const Tensor& tensor) {
  check_type(i, tensor.dtype(), tensor.shape());
  check_memory(i, tensor);
  outputs_[i] = tensor;
}

namespace {

bool overlap(const Tensor& a, const Tensor& b) noexcept {
  return a.data() < b.data() + b.bytes() && b.data() < a.data() + a.bytes();
}

bool share_storage(const Tensor& a, const Tensor& b) noexcept {
  return a.storage() != nullptr ? a.storage() == b.storage() : overlap(a, b);
}

}  // namespace

/// Keeps true the analysis of this node's memory.
void KernelCall::check_memory(std::size_t i, const Tensor& tensor) const {
  const auto refuse_it = [&](std::string_view why, std::string_view hint) {
    throw_error(Code::bad_argument, "kernel",
                fmt::format("the kernel gives {} as output {} of {}: {}", tensor.text(), i,
                            node_text(node_), why),
                std::string(hint));
  };
  if (!tensor.dense() || lacks_host_memory(tensor))
    refuse_it(tensor.memory().is_gpu() ? "it lies on a GPU" : "it has no memory, or is not dense",
              "copy it into the memory of output()");
  for (const Reuse& reuse : node_.definition->reuses)
    if (reuse.output == i && reuse.kind != Reuse::Kind::may)
      refuse_it("by its definition it has an input's memory", "ask for it by output()");
  if (tensor.bytes() == 0) return;
  for (const Tensor& input : inputs_)
    if (share_storage(input, tensor))
      refuse_it("that is the memory of an input", "ask for it by output()");
  for (std::size_t k = 0; k < outputs_.size(); ++k)
    if (k != i && outputs_[k] && overlap(*outputs_[k], tensor))
      refuse_it(fmt::format("it lies in the memory of output {}", k), "copy it");
}

void Kernels::add(const std::string& definition, Kernel kernel, Memory memory) {
  if (!kernel)
    throw_error(Code::bad_argument, "kernels", "the kernel of " + definition + " is empty");
  if (!kernels_.emplace(std::pair(definition, memory), std::move(kernel)).second)
    throw_error(
        Code::duplicate_name, "kernels",
        fmt::format("there is a kernel of {} in {} memory already", definition, name(memory)));
}

const Kernel* Kernels::find(std::string_view definition, Memory memory) const noexcept {
  for (const auto& [key, kernel] : kernels_)
    if (key.second == memory && key.first == definition) return &kernel;
  return nullptr;
}

}  // namespace weft::dataflow
