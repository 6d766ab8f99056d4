// Shared by all C functions: exceptions become codes, and arguments are checked.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "bindings/c/handles.hpp"

namespace weft::c {

/// Keeps the failure as this thread's last one. Returns its code. `status` must not be ok.
weft_code remember(const Status& status) noexcept;
/// The same under a code of this API.
weft_code remember(weft_code code, const Status& status) noexcept;
weft_code remember(Code code, const char* operation, const char* message) noexcept;
/// Remembers the exception that is being handled, and returns its code.
weft_code remember_exception() noexcept;
/// WEFT_CODE_OK, or the status' code, which is remembered.
inline weft_code code_of(const Status& status) noexcept {
  return status.ok() ? WEFT_CODE_OK : remember(status);
}

/// Runs `body` and returns its code, or remembers the exception that it throws.
template <typename Body>
weft_code guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return remember_exception();
  }
}

/// Throws Error(bad_argument) if `pointer` is NULL.
template <typename T>
T& given(const char* operation, const char* what, T* pointer) {
  if (pointer == nullptr)
    throw_error(Code::bad_argument, operation, std::string(what) + " is NULL");
  return *pointer;
}

/// The `count` elements at `first`, which may be NULL if there are none.
template <typename T>
std::span<T> given(const char* operation, const char* what, T* first, std::size_t count) {
  if (count > 0) (void)given(operation, what, first);
  return {first, count};
}

inline const World& world_of(const weft_world& handle) { return handle.world; }
/// The world that counts the handle as open.
template <typename Handle>
const World& world_of(const Handle& handle) {
  return handle.open.world().world;
}

/// Throws Error(forked) in a fork of the rank's process.
void check_not_forked(const char* operation, const World& world);

/// As given(), but throws Error(forked) in a fork of the rank's process.
template <typename T>
T& in_rank(const char* operation, const char* what, T* pointer) {
  T& handle = given(operation, what, pointer);
  check_not_forked(operation, world_of(handle));
  return handle;
}

/// Throws Error(bad_argument) for a tensor that must not be written.
void check_writable(const char* operation, const weft_tensor& tensor);
/// Throws Error(bad_argument) if `open` is not 0: "2 slots are still open; close them first".
void check_closed(const char* operation, int open, const char* what);

/// Throws Error(bad_argument) unless `index` is below `size`.
void check_index(const char* operation, std::size_t index, std::size_t size);
/// The tensors of `count` handles.
std::vector<Tensor> tensors_of(const char* operation, const weft_tensor* const* handles,
                               std::size_t count);

/// Below 0: the default.
Deadline deadline(const char* operation, double seconds);
DType checked_dtype(const char* operation, weft_dtype dtype);
Shape shape_of(const char* operation, const std::int64_t* dims, std::size_t ndims);

/// The value of an enumeration that C gives as any int: 0 to `last`.
template <typename To, typename From>
To checked_value(const char* operation, const char* what, From value, To last) {
  const auto number = static_cast<int>(value);
  if (number < 0 || number > static_cast<int>(last))
    throw_error(Code::bad_argument, operation,
                std::string(what) + " is " + std::to_string(number) + ", not one of 0 to " +
                    std::to_string(static_cast<int>(last)));
  return static_cast<To>(number);
}

/// A copy for the caller, who frees it by weft_text_free.
char* new_text(std::string_view text);
/// Throws Error(bad_argument) if `text` is NULL.
std::string text_of(const char* operation, const char* what, const char* text);

}  // namespace weft::c
