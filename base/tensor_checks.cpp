#include "base/tensor_checks.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"

namespace weft {

void check_dtype(const char* operation, DType dtype) {
  if (!is_dtype(dtype)) throw_error(Code::bad_argument, operation, no_such_dtype(dtype), kUseDType);
}

std::string no_such_dtype(DType dtype) {
  return fmt::format("element type {} does not exist", static_cast<int>(dtype));
}

std::string no_host_memory(const char* which, const Tensor& tensor) {
  if (tensor.memory().is_gpu())
    return fmt::format("{} {} lies on {}, and this call takes host memory alone", which,
                       tensor.text(), tensor.memory().text());
  if (!is_dtype(tensor.dtype()))
    return fmt::format("{} has no memory: {}", which, no_such_dtype(tensor.dtype()));
  return fmt::format("{} {} has no memory", which, tensor.text());
}

const char* give_host_memory(const Tensor& tensor) noexcept {
  if (tensor.memory().is_gpu()) return "copy it to host memory first (World::copy)";
  return "allocate it, or wrap or adopt memory; a tensor that was moved from has none";
}

}  // namespace weft
