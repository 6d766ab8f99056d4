// Splits a group into groups of members that give one colour.
#pragma once

#include "runtime/health/membership.hpp"

namespace weft::detail {

/// Group::split(). Any thread.
Result<Group> split(Membership& membership, const GroupState& group, int colour, int key,
                    Deadline deadline) noexcept;

}  // namespace weft::detail
