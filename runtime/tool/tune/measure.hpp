// What messages, bytes and sums cost here.
#pragma once

#include "runtime/collective/choice.hpp"
#include "weft/message.hpp"
#include "weft/world.hpp"

namespace weft::tune {

/// Between this rank and another, which calls it too at the same time. Both get what the lower one
/// has measured. Throws Error.
detail::LinkCost measure_link(World& world, Messages& messages, int peer);
/// Bytes of a tensor, of two that one processor adds, in a second.
double measure_sum();

}  // namespace weft::tune
