// The paths between all ranks of a job, gathered and printed by rank 0.
#pragma once

namespace weft {

/// Joins the job that this process was started in, gathers every rank's paths, and prints them as
/// JSON on rank 0:
///   {"schema": "weft-job/1", "size": N, "ranks": [{"rank", "host", "pid",
///     "paths": [{"peer", "host", "pid", "fabric", "reason",
///                "others": [{"fabric", "usable", "reason"}]}]}]}
/// Collective: every rank of the job calls it. Throws Error.
void print_job_table();

}  // namespace weft
