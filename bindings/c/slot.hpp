// Shared by the two kinds of slots.
#pragma once

#include "bindings/c/call.hpp"

namespace weft::c {

/// All but the owner. The name is valid as long as `spec`.
weft_slot_info slot_info(const SlotSpec& spec);
Needed needed_of(weft_needed needed);

}  // namespace weft::c
