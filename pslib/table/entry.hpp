// Common first steps of every public call of pslib.
#pragma once

#include "base/fail.hpp"
#include "base/handle.hpp"
#include "runtime/world/services.hpp"
#include "weft/deadline.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Turns `deadline` into a point in time. Call it before any wait: a default deadline would
/// otherwise start anew in each inner wait.
inline Deadline resolved(World& world, Deadline deadline) noexcept {
  return deadline.resolve(default_timeout(world));
}

}  // namespace weft::pslib
