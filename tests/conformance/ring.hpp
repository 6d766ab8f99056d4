// Ranks in a ring: each puts into a slot of the next one, or reads it. A world of one puts into its
// own.
#pragma once

#include "tests/conformance/check.hpp"
#include "tests/conformance/ends.hpp"
#include "weft/weft.hpp"

namespace weft::conformance {

inline int next_of(const World& world) { return (world.rank() + 1) % world.size(); }
inline int previous_of(const World& world) {
  return (world.rank() + world.size() - 1) % world.size();
}

/// This rank's slot, which the previous rank puts into, and its end of the next rank's.
struct RingEdge {
  RingEdge(World& world, const SlotSpec& spec)
      : slot(world.expose(owned(spec))), remote(world.attach(next_of(world), spec)) {}

  Slot slot;
  RemoteSlot remote;
};

/// The slot that this rank publishes to the previous rank, and its reader of the next rank's slot.
struct PublishedEdge {
  PublishedEdge(World& world, const PublishedSpec& spec)
      : slot(world.expose_published(owned(spec))),
        reader(world.attach_published(next_of(world), spec)) {}

  PublishedSlot slot;
  PublishedReader reader;
};

/// Publishes this rank's version of that number, which has the pattern 1 of the rank.
inline void publish(World& world, PublishedSlot& slot, std::uint64_t version) {
  const Check check(world);
  fill(world, check.ok(slot.next(), "next"), tests::pattern_of(world.rank(), 1, version));
  check.ok(slot.publish(), "publish");
}

}  // namespace weft::conformance
