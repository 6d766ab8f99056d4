// Ranks in a ring: each puts into a slot of the next one. A world of one puts into its own.
#pragma once

#include "weft/weft.hpp"

namespace weft::conformance {

inline int next_of(const World& world) { return (world.rank() + 1) % world.size(); }
inline int previous_of(const World& world) {
  return (world.rank() + world.size() - 1) % world.size();
}

/// This rank's slot, which the previous rank writes or reads, and its end of the next rank's.
struct RingEdge {
  RingEdge(World& world, const SlotSpec& spec)
      : slot(world.expose(spec)), remote(world.attach(next_of(world), spec)) {}

  Slot slot;
  RemoteSlot remote;
};

}  // namespace weft::conformance
