// Exposes and attaches the signals of a world.
#include "weft/signal.hpp"

#include "base/control_call.hpp"
#include "runtime/world/world_state.hpp"

namespace weft {

Signal Signal::expose(World& world, const std::string& name, std::uint64_t value) {
  WorldAccess::state(world).refuse_fork("expose");
  return control_call("expose", [&] {
    return Signal(WorldAccess::state(world).signals.exposed().expose(name, value));
  });
}

RemoteSignal RemoteSignal::attach(World& world, int owner, const std::string& name,
                                  Deadline deadline) {
  WorldAccess::state(world).refuse_fork("attach");
  return control_call("attach", [&] {
    return RemoteSignal(WorldAccess::state(world).signals.remote().attach(owner, name, deadline));
  });
}

}  // namespace weft
