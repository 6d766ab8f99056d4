// An operation that failed by its caller's doing, until the application looks at its request.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "base/stats/failure_row.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// Whether an operation with that outcome failed by what its caller gave or this rank lacked. Of
/// ranks that are gone other errors tell.
inline bool is_of_the_caller(Code code) noexcept {
  switch (code) {
    case Code::mismatch:
    case Code::bad_argument:
    case Code::exhausted:
    case Code::flow_overrun:
    case Code::system:
      return true;
    default:
      return false;
  }
}

/// Why the operation failed, as its request has it. Shown in the stats segment until the
/// application looks at the request, or nothing holds this any more.
struct UnseenFailure : ErrorDetail {
  UnseenFailure(ErrorDetail detail, std::shared_ptr<stats::StatsSegment> stats) noexcept
      : ErrorDetail(std::move(detail)), row(std::move(stats)) {}

  /// The application looks at the outcome.
  void see() const noexcept {
    if (!seen.exchange(true)) row.clear();
  }

  mutable std::atomic<bool> seen{false};
  mutable stats::FailureRow row;
};

}  // namespace weft::p2p
