// Who reaches whom by what, in a job: every rank's table of paths, printed by rank 0.
#pragma once

namespace weft {

/// Joins the job that this process was started in, gathers every rank's paths, and prints them as
/// JSON on rank 0:
///   {"schema": "weft-job/1", "size": N, "ranks": [{"rank", "host", "pid",
///     "paths": [{"peer", "host", "pid", "fabric", "reason",
///                "others": [{"fabric", "usable", "reason"}]}]}]}
/// Every rank of the job calls it. Throws Error.
void print_job_table();

}  // namespace weft
