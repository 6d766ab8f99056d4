// The report of an executor.
#pragma once

#include <string>
#include <vector>

#include "runtime/dataflow/execute/activity.hpp"
#include "weft/executor_report.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// `slots`: the name of each edge's slot.
ExecutorReport make_report(const World& world, const Plan& plan,
                           const std::vector<std::string>& slots, const Activity& activity);

}  // namespace weft::dataflow
