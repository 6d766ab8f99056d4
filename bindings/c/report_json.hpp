// World::report() for programs that don't speak C++.
#pragma once

#include <string>

#include "weft/report.hpp"

namespace weft::c {

/// One line of JSON; weft_world_report documents its members.
std::string report_json(const Report& report, int rank, int size);

}  // namespace weft::c
