// Prints a job's status as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/tool/status/job_status.hpp"

namespace weft::tool {

/// A table with one line per rank, followed by the late ranks. `before`: the status `seconds` ago,
/// from which rates are computed; may be null.
std::string status_text(const JobStatus& job, const JobStatus* before, double seconds);

/// {"id", "size", "ranks": [...], "laggards": [{"rank", "waiters"}], "circles": [[rank, ...]]};
/// docs/operating.md describes the other fields.
nlohmann::ordered_json status_json(const JobStatus& job);

/// The edge of a slot that the executor made: "y:0" of "graph/3 y:0".
std::string edge_of(const ExecutorStatus& one, const std::string& slot);

}  // namespace weft::tool
