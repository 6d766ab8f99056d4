// Where the captures of real machines lie, which are no part of weft.
#pragma once

#include <string>

/// The path of one: in the folder that WEFT_TEST_TOPOLOGIES names, or in shared/topologies beside
/// this repository or above. Empty: they are not on this machine.
std::string recorded_machine(const std::string& file);
