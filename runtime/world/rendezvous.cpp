// Opens a rendezvous in a world.
#include "weft/rendezvous.hpp"

#include <fmt/format.h>

#include "base/control_call.hpp"
#include "runtime/world/world_state.hpp"

namespace weft {

Rendezvous Rendezvous::open(World& world, const RendezvousSpec& spec, Deadline deadline) {
  return open(world, world.group(), spec, deadline);
}

Rendezvous Rendezvous::open(World& world, const Group& group, const RendezvousSpec& spec,
                            Deadline deadline) {
  detail::WorldState& state = WorldAccess::usable(world, "rendezvous");
  return control_call("rendezvous", [&] {
    if (!group.contains(world.rank()))
      throw Error(
          ErrorDetail{.code = Code::bad_argument,
                      .operation = "rendezvous",
                      .message = fmt::format("rank {} is no member of the group", world.rank()),
                      .hint = "only members of a group open its rendezvous",
                      .rank = world.rank(),
                      .slot = spec.name});
    // The suffix keeps the rendezvous of a smaller group apart from another group's rendezvous of
    // the same name, and from an older one that some members have not destroyed yet.
    const bool is_whole = group.epoch() == 0 && group.size() == world.size();
    const std::string suffix = is_whole ? "" : fmt::format("@{:016x}", group.id());
    return Rendezvous(state.hold(state.rendezvous.open(spec, suffix, group.members(), deadline)));
  });
}

}  // namespace weft
