// The hint of a timeout: WEFT_TIMEOUT limits only waits that were given no deadline.
#pragma once

#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft {

/// `status` of a call by `deadline`, as its caller gave it. If one was given, "a longer deadline:
/// WEFT_TIMEOUT" in the hint of a timeout becomes "a longer deadline".
Status hinted_for(const Deadline& deadline, Status status) noexcept;

template <typename T>
Result<T> hinted_for(const Deadline& deadline, Result<T> result) noexcept {
  if (result.ok()) [[likely]]
    return result;
  return hinted_for(deadline, result.status());
}

}  // namespace weft
