// The loops that a fault interrupts.
#pragma once

#include "weft/world.hpp"

namespace weft::tests {

/// Each runs steps until `end` (returns ok) or until a step fails (returns its status). Control
/// calls may throw.
Status exchange_slots(World& world, Deadline end);
Status exchange_messages(World& world, Deadline end);
Status train_with_pslib(World& world, Deadline end);

}  // namespace weft::tests
