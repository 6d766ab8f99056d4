// Errors for calls that fail whatever the other ranks do.
#pragma once

#include <string>
#include <utility>

#include "weft/error.hpp"

namespace weft {

inline ErrorDetail bad_argument(std::string operation, std::string message, std::string hint) {
  ErrorDetail detail;
  detail.code = Code::bad_argument;
  detail.operation = std::move(operation);
  detail.message = std::move(message);
  detail.hint = std::move(hint);
  return detail;
}

/// An error for data in a rank's memory that no rank of a healthy job writes. `peer` wrote it.
inline ErrorDetail nonsense(std::string operation, int peer, std::string slot,
                            std::string message) {
  ErrorDetail detail;
  detail.code = Code::mismatch;
  detail.operation = std::move(operation);
  detail.message = std::move(message);
  detail.hint = "that rank's memory is damaged, or its program breaks the protocol: end that rank";
  detail.peer = peer;
  detail.slot = std::move(slot);
  return detail;
}

/// The status described by the ErrorDetail that `make()` returns. Without memory for its text, the
/// status has `code` alone.
template <typename Make>
Status refuse(Code code, const Make& make) noexcept {
  ErrorDetail detail;
  try {
    detail = make();
  } catch (...) {
    detail.code = code;
  }
  return Status(std::move(detail));
}

}  // namespace weft
