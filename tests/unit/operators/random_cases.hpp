// Applications of definitions with random shapes and attributes.
#pragma once

#include <vector>

#include "tests/unit/dataflow/cases.hpp"

namespace weft::dataflow {

/// One or more of each definition whose kernel depends on shapes, that follow from the seed.
std::vector<reference::Case> random_cases(std::uint64_t seed);

}  // namespace weft::dataflow
