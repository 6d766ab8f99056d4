#include "base/handle.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"

namespace weft {

Status empty_handle(const char* type, const char* operation) noexcept {
  return refuse(Code::bad_argument, [&] {
    return bad_argument(
        operation, fmt::format("the {} is empty: it was default-constructed or moved from", type),
        "call the object that it was moved to, or make one");
  });
}

Status orphaned_handle(const char* type, const char* operation, const char* gone) noexcept {
  return refuse(Code::closed, [&] {
    return error_detail(Code::closed, operation,
                        fmt::format("the {} has outlived its {}", type, gone),
                        fmt::format("keep the {} until its last call has returned", gone));
  });
}

void detail::refuse_empty(const char* type, const char* operation) {
  throw Error(empty_handle(type, operation));
}

}  // namespace weft
