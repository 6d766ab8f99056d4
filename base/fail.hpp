// Errors for calls that can't be right, whatever the other ranks do.
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

/// What a rank wrote into its memory is not what any rank of a healthy job writes.
inline ErrorDetail nonsense(std::string operation, int peer, std::string slot,
                            std::string message) {
  ErrorDetail detail;
  detail.code = Code::mismatch;
  detail.operation = std::move(operation);
  detail.message = std::move(message);
  detail.hint = "that rank's memory is damaged, or it does not play by the rules: end it";
  detail.peer = peer;
  detail.slot = std::move(slot);
  return detail;
}

/// The status that `make()`, which returns an ErrorDetail, describes; with no memory for the words,
/// the code alone.
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
