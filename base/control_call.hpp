// Translates every exception that a control call would let out into weft::Error.
#pragma once

#include <utility>

#include "weft/error.hpp"

namespace weft {

/// Throws the exception that is being handled as an Error of this operation: exhausted for what
/// wants memory or threads, else system with the exception's words. An Error stays what it is.
[[noreturn]] void rethrow_as_error(const char* operation);

/// `body()`, the whole of a control call.
template <typename Body>
decltype(auto) control_call(const char* operation, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    rethrow_as_error(operation);
  }
}

}  // namespace weft
