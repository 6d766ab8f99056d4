// Constructs Messages from a world.
#include "weft/message.hpp"

#include "runtime/world/world_state.hpp"

namespace weft {

Messages::Messages(World& world) : state_(&WorldAccess::state(world).messages) {
  WorldAccess::state(world).refuse_fork("messages");
}

}  // namespace weft
