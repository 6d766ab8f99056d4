// The transfer report as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "steady_state.hpp"

namespace charlm {

/// The paths of `rank`'s tensors with the reasons for them, then a row per edge with its cost per
/// step. With more than twenty edges, those whose names differ only in numbers share a row, summed.
std::string transfer_report(const SteadyState& steady, int rank);

/// One line: the cost of a step of the whole job. `ranks` has each rank's total.
std::string job_line(std::span<const weft::TransferCounters> ranks, int steps);

/// {"steps":..,"job":{counter:..},"ranks":[{counter:..}],"paths":[..],"edges":[..]}. Counters are
/// totals over the steps; edges and paths are those of the rank that writes the report.
nlohmann::json transfer_json(const SteadyState& steady,
                             std::span<const weft::TransferCounters> ranks);

}  // namespace charlm
