// Constructs Messages from a world.
#include "weft/message.hpp"

#include "runtime/world/world_state.hpp"

namespace weft {

Messages::Messages(World& world) {
  detail::WorldState& state = WorldAccess::usable(world, "messages");
  state_ = std::shared_ptr<detail::MessageState>(state.shared_from_this(), &state.messages);
}

}  // namespace weft
