// The contract that both ends of a slot state and that attach compares, for both kinds of slots.
#pragma once

#include <cstdint>
#include <string>

#include "weft/published_slot.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {

/// The rank that writes a slot's buffers, which tells the two kinds apart.
enum class Writer : std::uint8_t {
  peer,  ///< Slot and RemoteSlot: one other rank puts
  owner  ///< PublishedSlot and PublishedReader: the owner publishes, any rank reads
};

struct Contract {
  Contract() = default;
  // Implicit: functions that take a contract take both kinds of specification.
  Contract(const SlotSpec& spec)  // NOLINT(google-explicit-constructor)
      : name(spec.name),
        dtype(spec.dtype),
        shape(spec.shape),
        depth(spec.depth),
        writer(Writer::peer),
        flow(spec.flow),
        placement(spec.placement) {}
  Contract(const PublishedSpec& spec)  // NOLINT(google-explicit-constructor)
      : name(spec.name),
        dtype(spec.dtype),
        shape(spec.shape),
        depth(spec.depth),
        writer(Writer::owner),
        flow(spec.flow) {}

  /// Requires Writer::peer.
  SlotSpec slot_spec() const {
    return {.name = name,
            .dtype = dtype,
            .shape = shape,
            .depth = depth,
            .flow = flow,
            .placement = placement};
  }
  /// Requires Writer::owner.
  PublishedSpec published_spec() const {
    return {.name = name, .dtype = dtype, .shape = shape, .depth = depth, .flow = flow};
  }

  std::string name{};
  DType dtype = DType::f32;
  Shape shape{};
  std::uint32_t depth = 1;
  Writer writer = Writer::peer;
  Flow flow = Flow::credits;
  Placement placement = Placement::fixed;
};

}  // namespace weft::p2p
