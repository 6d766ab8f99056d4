// Translation of every exception that escapes a control call into weft::Error.
#pragma once

#include <utility>

#include "weft/error.hpp"

namespace weft {

/// Rethrows the exception being handled as an Error of `operation`: `exhausted` if memory, threads
/// or descriptors are short, otherwise `system` with the exception's text. An Error is rethrown
/// unchanged.
[[noreturn]] void rethrow_as_error(const char* operation);

/// Runs `body()`, the whole of a control call, and translates its exceptions.
template <typename Body>
decltype(auto) control_call(const char* operation, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    rethrow_as_error(operation);
  }
}

}  // namespace weft
