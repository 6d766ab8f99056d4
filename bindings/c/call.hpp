// Shared by all C functions: exceptions become codes, and arguments are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/fail.hpp"
#include "bindings/c/handles.hpp"

namespace weft::c {

/// Keeps the text of this thread's last failing call. Returns `code`.
weft_code remember(weft_code code, std::string_view text) noexcept;
weft_code remember(const Status& status);
/// Remembers the exception that is being handled, and returns its code.
weft_code remember_exception() noexcept;

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

inline const World& world_of(const weft_world& handle) { return handle.world; }
inline const World& world_of(const weft_slot& handle) { return handle.world->world; }
inline const World& world_of(const weft_remote_slot& handle) { return handle.world->world; }
inline const World& world_of(const weft_arrival& handle) { return world_of(*handle.slot); }

/// Throws Error(forked) in a fork of the rank's process.
void check_not_forked(const char* operation, const World& world);

/// As given(), but throws Error(forked) in a fork of the rank's process.
template <typename T>
T& in_rank(const char* operation, const char* what, T* pointer) {
  T& handle = given(operation, what, pointer);
  check_not_forked(operation, world_of(handle));
  return handle;
}

/// Below 0: the default.
Deadline deadline(const char* operation, double seconds);
DType checked_dtype(const char* operation, weft_dtype dtype);
Shape shape_of(const char* operation, const std::int64_t* dims, std::size_t ndims);

}  // namespace weft::c
