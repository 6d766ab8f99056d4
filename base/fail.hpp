// Errors for calls that fail whatever the other ranks do.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "weft/error.hpp"

namespace weft {

/// The parts of most errors. Set `rank`, `peer` and `slot` on the result where they are known.
inline ErrorDetail error_detail(Code code, std::string operation, std::string message,
                                std::string hint = {}) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = std::move(operation);
  detail.message = std::move(message);
  detail.hint = std::move(hint);
  return detail;
}

[[noreturn, gnu::cold]] inline void throw_error(Code code, std::string operation,
                                                std::string message, std::string hint = {}) {
  throw Error(error_detail(code, std::move(operation), std::move(message), std::move(hint)));
}

inline ErrorDetail bad_argument(std::string operation, std::string message, std::string hint) {
  return error_detail(Code::bad_argument, std::move(operation), std::move(message),
                      std::move(hint));
}

/// An error for data in a rank's memory that no rank of a healthy job writes. `peer` wrote it.
inline ErrorDetail nonsense(std::string operation, int peer, std::string slot,
                            std::string message) {
  ErrorDetail detail = error_detail(
      Code::mismatch, std::move(operation), std::move(message),
      "that rank's memory is damaged, or its program breaks the protocol: end that rank");
  detail.peer = peer;
  detail.slot = std::move(slot);
  return detail;
}

/// The status described by the ErrorDetail that `make()` returns. Without memory for its text, the
/// status has `code` alone. For calls that promise not to throw: texts are made within `make`.
template <typename Make>
Status refuse(Code code, const Make& make) noexcept {
  ErrorDetail detail;
  try {
    detail = make();
  } catch (const std::bad_alloc&) {
    detail = ErrorDetail();
  }
  detail.code = code;
  return Status(std::move(detail));
}

/// The Status of the exception that is being handled: that of an Error, or `exhausted` if memory
/// has run out. Call within `catch (...)`; other exceptions go on.
inline Status caught_status() {
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return Status(ErrorDetail{.code = Code::exhausted, .message = "out of memory"});
  }
}

/// Returns the result of `call`, or the Status of the exception that it throws: an Error's, or
/// `exhausted` if memory has run out. For calls that promise not to throw.
template <typename Call>
auto returned(const Call& call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    return caught_status();
  }
}

/// `status` with the changes that `change(detail)` makes. Without memory for them: `status`.
template <typename Change>
Status altered(Status status, const Change& change) noexcept {
  try {
    ErrorDetail detail = status.detail();
    change(detail);
    return Status(std::move(detail));
  } catch (const std::bad_alloc&) {
    return status;
  }
}

/// The Status that `make` returns. Without memory for its text, the status has `code` and the ranks
/// alone.
template <typename Make>
Status described(Code code, int rank, int peer, const Make& make) noexcept {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return Status(ErrorDetail{.code = code, .rank = rank, .peer = peer});
  }
}

}  // namespace weft
