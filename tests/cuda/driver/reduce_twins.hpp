// Weft's own kernels, for the processor: the same bodies, which the stand-in knows by name.
#pragma once

#include <string>

#include "tests/cuda/driver/control.hpp"

namespace weft::stand_in {

/// Null: weft has no such kernel.
const Twin* twin_of_weft(const std::string& kernel);

}  // namespace weft::stand_in
