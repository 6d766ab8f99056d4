// The report of an executor.
#pragma once

#include "runtime/dataflow/execute/activity.hpp"
#include "runtime/dataflow/execute/edge_ends.hpp"
#include "weft/executor_report.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

ExecutorReport make_report(const World& world, const Plan& plan, const Ends& ends,
                           const Activity& activity);

}  // namespace weft::dataflow
