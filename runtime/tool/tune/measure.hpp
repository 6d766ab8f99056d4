// Measures the costs of messages, bytes and sums on this machine.
#pragma once

#include "runtime/collective/choice.hpp"
#include "weft/message.hpp"
#include "weft/world.hpp"

namespace weft::tune {

/// Measures the link between this rank and `peer`, which must call this function at the same time.
/// Both return the values that the lower rank has measured. Throws Error.
detail::LinkCost measure_link(World& world, Messages& messages, int peer);
/// Bytes per second of one tensor when one processor adds two f32 tensors.
double measure_sum();

}  // namespace weft::tune
