// Checks of the tensors and element types that callers hand over.
#pragma once

#include <string>

#include "weft/tensor.hpp"

namespace weft {

/// Whether `dtype` is a value of DType.
constexpr bool is_dtype(DType dtype) noexcept { return dtype <= DType::boolean; }
/// Throws Error(bad_argument) unless is_dtype().
void check_dtype(const char* operation, DType dtype);
/// For the message of an error: "element type 99 does not exist".
std::string no_such_dtype(DType dtype);
inline constexpr const char* kUseDType = "use a value of weft::DType";

/// Whether the tensor has elements and no bytes for them, since it was default-constructed, moved
/// from, wrapped around a null pointer, or has an element type that does not exist.
inline bool lacks_memory(const Tensor& tensor) noexcept {
  return tensor.bytes() == 0 && tensor.shape().elements() != 0;
}
/// Whether the tensor has elements that the processor can't reach: it lies on a GPU, or
/// lacks_memory().
inline bool lacks_host_memory(const Tensor& tensor) noexcept {
  return tensor.memory().is_gpu() || lacks_memory(tensor);
}
/// For the message of an error about such a tensor, which `which` names: "the tensor".
std::string no_host_memory(const char* which, const Tensor& tensor);
/// A remedy for it.
const char* give_host_memory(const Tensor& tensor) noexcept;

}  // namespace weft
