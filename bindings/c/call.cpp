#include "bindings/c/call.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

namespace weft::c {

void check_not_forked(const char* operation, const World& world) {
  const Status status = world.alive({});
  if (status.code() != Code::forked) return;
  ErrorDetail detail = status.detail();
  detail.operation = operation;
  throw Error(std::move(detail));
}

Deadline deadline(const char* operation, double seconds) {
  if (std::isnan(seconds))
    throw_error(Code::bad_argument, operation, "the timeout is not a number");
  if (seconds < 0) return {};
  constexpr double kLongest = 1e8;  // three years; larger values could overflow the clock
  return Deadline::after(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::min(seconds, kLongest))));
}

DType checked_dtype(const char* operation, weft_dtype dtype) {
  const auto value = static_cast<int>(dtype);
  if (value < WEFT_DTYPE_F64 || value > WEFT_DTYPE_BOOL)
    throw_error(Code::bad_argument, operation,
                "dtype is " + std::to_string(value) + ", not one of 0 to 8");
  return static_cast<DType>(value);
}

Shape shape_of(const char* operation, const std::int64_t* dims, std::size_t ndims) {
  if (dims == nullptr && ndims > 0)
    throw_error(Code::bad_argument, operation, "dims is NULL, but ndims is not 0");
  return Shape(std::span(dims, ndims));
}

void check_writable(const char* operation, const weft_tensor& tensor) {
  if (tensor.read_only)
    throw_error(Code::bad_argument, operation, "the tensor is read-only",
                "give memory that weft may write, or a copy");
}

void check_closed(const char* operation, int open, const char* what) {
  if (open > 0)
    throw_error(Code::bad_argument, operation,
                std::to_string(open) + " " + what + " are still open; close them first");
}

void check_index(const char* operation, std::size_t index, std::size_t size) {
  if (index >= size)
    throw_error(Code::bad_argument, operation,
                "index " + std::to_string(index) + " of " + std::to_string(size));
}

std::vector<Tensor> tensors_of(const char* operation, const weft_tensor* const* handles,
                               std::size_t count) {
  std::vector<Tensor> tensors;
  for (const weft_tensor* const handle : given(operation, "tensors", handles, count))
    tensors.push_back(given(operation, "a tensor", handle).tensor);
  return tensors;
}

char* new_text(std::string_view text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

std::string text_of(const char* operation, const char* what, const char* text) {
  return &given(operation, what, text);
}

}  // namespace weft::c

void weft_text_free(char* text) { std::free(text); }
