// Until when a call of pslib may last in all.
#pragma once

#include "runtime/world_state.hpp"
#include "weft/deadline.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// At every public entry, before anything waits: a default deadline begins anew in each wait.
inline Deadline resolved(World& world, Deadline deadline) noexcept {
  return deadline.resolve(WorldAccess::state(world).local.waiter.default_timeout());
}

}  // namespace weft::pslib
