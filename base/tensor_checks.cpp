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

std::string no_memory(const char* which, const Tensor& tensor) {
  if (!is_dtype(tensor.dtype()))
    return fmt::format("{} has no memory: {}", which, no_such_dtype(tensor.dtype()));
  return fmt::format("{} {} has no memory", which, tensor.text());
}

}  // namespace weft
