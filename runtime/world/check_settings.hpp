// The checks of settings that joining makes and that need no job.
#pragma once

#include "base/config.hpp"

namespace weft {

/// Refuses values that no job takes: part of World::join and of check_settings(). Throws
/// Error(bad_config); for what this version has not, Error(unreachable).
void check_join_settings(const Config& config);

/// Refuses values that World::join would refuse in a job started here. Creates nothing and connects
/// to nothing, so it leaves out a job's own questions, such as a missing WEFT_RANK or the ports of
/// WEFT_NIC. Throws as check_join_settings().
void check_settings(const Config& config);

}  // namespace weft
