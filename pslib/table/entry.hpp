// Common first steps of every public call of pslib.
#pragma once

#include "base/fail.hpp"
#include "runtime/world/services.hpp"
#include "weft/deadline.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Turns `deadline` into a point in time. Call it before any wait: a default deadline would
/// otherwise start anew in each inner wait.
inline Deadline resolved(World& world, Deadline deadline) noexcept {
  return deadline.resolve(default_timeout(world));
}

/// Code::forked in a fork of the rank's process, else ok.
inline Status refuse_fork(const World& world, const char* operation) noexcept {
  const Status status = world.alive({});
  if (status.code() != Code::forked) return {};
  return refuse(Code::forked, [&] {
    ErrorDetail detail = status.detail();
    detail.operation = operation;
    return detail;
  });
}

}  // namespace weft::pslib
