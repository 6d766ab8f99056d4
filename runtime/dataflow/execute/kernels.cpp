// Kernels, and what they are called with.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "runtime/dataflow/graph/inference.hpp"
#include "weft/executor.hpp"

namespace weft::dataflow {

KernelCall::KernelCall(const Node& node, std::vector<Tensor> inputs, Allocate allocate)
    : node_(node),
      inputs_(std::move(inputs)),
      allocate_(std::move(allocate)),
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

const Tensor& KernelCall::output(std::size_t i, DType dtype, const Shape& shape) {
  if (i >= outputs_.size())
    throw_error(Code::bad_argument, "kernel",
                fmt::format("{} has no output {}", node_text(node_), i));
  const TensorType& type = node_.outputs[i];
  if (dtype != type.dtype || !type.shape.fits(shape))
    throw_error(Code::mismatch, "kernel",
                fmt::format("the kernel gives {}{} as output {} of {}; the graph says {}",
                            name(dtype), shape.text(), i, node_text(node_), type.text()));
  if (!outputs_[i] || outputs_[i]->shape() != shape) outputs_[i] = allocate_(i, dtype, shape);
  return *outputs_[i];
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
