// Exposes and attaches the signals of a world.
#include "weft/signal.hpp"

#include "base/control_call.hpp"
#include "runtime/world/world_state.hpp"

namespace weft {

Signal Signal::expose(World& world, const std::string& name, std::uint64_t value) {
  detail::WorldState& state = WorldAccess::usable(world, "expose");
  return control_call(
      "expose", [&] { return Signal(state.hold(state.signals.exposed().expose(name, value))); });
}

RemoteSignal RemoteSignal::attach(World& world, int owner, const std::string& name,
                                  Deadline deadline) {
  detail::WorldState& state = WorldAccess::usable(world, "attach");
  return control_call("attach", [&] {
    return RemoteSignal(state.hold(state.signals.remote().attach(owner, name, deadline)));
  });
}

}  // namespace weft
