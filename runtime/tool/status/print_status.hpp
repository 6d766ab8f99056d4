// A job's status, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/tool/status/job_status.hpp"

namespace weft::tool {

/// A table, a line for each rank, and who is late. `before`: an earlier look, `seconds` ago, from
/// which rates follow; may be null.
std::string status_text(const JobStatus& job, const JobStatus* before, double seconds);

/// {"id", "size", "ranks": [...], "laggards": [{"rank", "waiters"}], "circles": [[rank, ...]]};
/// docs/operating.md has the rest.
nlohmann::ordered_json status_json(const JobStatus& job);

}  // namespace weft::tool
