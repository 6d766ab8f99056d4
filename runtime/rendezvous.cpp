// Opening a rendezvous in a world.
#include "weft/rendezvous.hpp"

#include "base/control_call.hpp"
#include "runtime/world_state.hpp"

namespace weft {

Rendezvous Rendezvous::open(World& world, const RendezvousSpec& spec, Deadline deadline) {
  WorldAccess::state(world).refuse_fork("rendezvous");
  return control_call("rendezvous", [&] {
    return Rendezvous(WorldAccess::state(world).rendezvous.open(spec, deadline));
  });
}

}  // namespace weft
