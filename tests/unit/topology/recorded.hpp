// The location of the recordings of real machines, which are not part of weft.
#pragma once

#include <string>

/// The path of a recording: in the folder that WEFT_TEST_TOPOLOGIES names, or in shared/topologies
/// beside this repository or above. Empty if this machine has no recordings.
std::string recorded_machine(const std::string& file);
