// The checks of settings that joining makes and that need no job.
#pragma once

#include "base/config.hpp"

namespace weft {

/// Refuses values that World::join would refuse in a job started here. Creates nothing and connects
/// to nothing, so it leaves out a job's own questions, such as a missing WEFT_RANK or the ports of
/// WEFT_NIC. Throws Error(bad_config).
void check_settings(const Config& config);

}  // namespace weft
