// The hint of a timeout: WEFT_TIMEOUT limits only waits that were given no deadline.
#pragma once

#include <utility>

#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft {

/// hinted_for() of a failure.
Status hinted_failure(const Deadline& deadline, Status failure) noexcept;

/// `status` of a call by `deadline`, as its caller gave it. If one was given, "a longer deadline:
/// WEFT_TIMEOUT" in the hint of a timeout becomes "a longer deadline".
inline Status hinted_for(const Deadline& deadline, Status status) noexcept {
  if (status.ok()) [[likely]]
    return status;
  return hinted_failure(deadline, std::move(status));
}

template <typename T>
Result<T> hinted_for(const Deadline& deadline, Result<T> result) noexcept {
  if (result.ok()) [[likely]]
    return result;
  return hinted_for(deadline, result.status());
}

}  // namespace weft
