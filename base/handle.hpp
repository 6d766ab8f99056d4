// The check that a call of a public handle begins with.
#pragma once

#include "weft/error.hpp"

namespace weft {

/// The refusal of a call of a handle that was default-constructed or moved from.
[[gnu::cold]] Status empty_handle(const char* type, const char* operation) noexcept;
/// The refusal of a call of a handle whose counterpart in this process, `gone`, is no more.
[[gnu::cold]] Status orphaned_handle(const char* type, const char* operation,
                                     const char* gone) noexcept;

/// Whether a handle has a state, and that takes part in a job: over() says that it does not.
template <typename Pointer>
bool is_usable(const Pointer& state) noexcept {
  return state != nullptr && !state->over();
}

/// Why a handle that is not usable refuses the call.
template <typename Pointer>
[[gnu::cold]] Status unusable(const Pointer& state, const char* type,
                              const char* operation) noexcept {
  return state == nullptr ? empty_handle(type, operation) : state->refusal(operation);
}

/// For calls that throw.
template <typename Pointer>
void require_usable(const Pointer& state, const char* type, const char* operation) {
  if (!is_usable(state)) [[unlikely]]
    unusable(state, type, operation).or_throw();
}

/// For calls that throw and need no job.
template <typename Pointer>
void require_state(const Pointer& state, const char* type, const char* operation) {
  if (state == nullptr) [[unlikely]]
    detail::refuse_empty(type, operation);
}

/// Shown by reference by a handle without a state.
template <typename T>
const T& nothing() noexcept {
  static const T none{};
  return none;
}

}  // namespace weft
