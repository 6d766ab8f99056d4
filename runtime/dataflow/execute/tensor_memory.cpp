#include "runtime/dataflow/execute/tensor_memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::dataflow {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

PlainStorage::PlainStorage(std::size_t bytes)
    : Storage(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlignment)),
              bytes, nullptr) {}

PlainStorage::~PlainStorage() { ::operator delete(data(), kAlignment); }

Tensor plain_tensor(DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  return {std::make_shared<PlainStorage>(bytes), 0, dtype, shape};
}

void copy_elements(const Tensor& tensor, std::byte* to) noexcept {
  for_each_run(tensor, [&to](const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
}

Tensor copy_of(const Tensor& tensor) {
  const Tensor copy = plain_tensor(tensor.dtype(), tensor.shape());
  copy_elements(tensor, copy.data());
  return copy;
}

Tensor TensorMemory::get(NodeId node, std::size_t output, DType dtype, const Shape& shape) {
  const Instruction& one = program_[static_cast<std::size_t>(node)];
  const auto make = [&] {
    return one.homes[output].kind == Home::Kind::arena ? world_.allocate(dtype, shape)
                                                       : plain_tensor(dtype, shape);
  };
  if (!one.node->outputs[output].shape.known()) return make();
  std::vector<Tensor>& kept = kept_[static_cast<std::size_t>(node)];
  kept.resize(one.node->outputs.size());
  if (kept[output].storage() == nullptr) kept[output] = make();
  return kept[output];
}

const Tensor& TensorMemory::variable(NodeId node) {
  std::vector<Tensor>& kept = kept_[static_cast<std::size_t>(node)];
  if (kept.empty()) {
    const TensorType& type = program_[static_cast<std::size_t>(node)].node->outputs[0];
    const Tensor tensor = get(node, 0, type.dtype, type.shape.shape());
    if (tensor.bytes() > 0) std::memset(tensor.data(), 0, tensor.bytes());
  }
  return kept[0];
}

}  // namespace weft::dataflow
