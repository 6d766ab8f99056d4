// The agreement of all ranks before step 1.
#pragma once

#include "weft/graph.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// Returns if all ranks have the same graph and none has a problem. Every rank must call it. Throws
/// `problem` if it is not ok, Error(bad_argument) with the text of another rank's problem,
/// Error(mismatch) that names the first node that differs, and the errors of collectives.
void agree(World& world, const Graph& graph, const Status& problem, Deadline deadline);

}  // namespace weft::dataflow
