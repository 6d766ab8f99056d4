// The transfer report as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "steady_state.hpp"

namespace charlm {

/// Which way the tensors of `rank` go and why, then a row per edge with what a step costs on it;
/// with more than twenty edges, those that differ in numbers only share a row, summed.
std::string transfer_report(const SteadyState& steady, int rank);

/// One line: what a step of the whole job costs. `ranks` has each rank's total.
std::string job_line(std::span<const weft::TransferCounters> ranks, int steps);

/// {"steps":..,"job":{counter:..},"ranks":[{counter:..}],"paths":[..],"edges":[..]}; counters are
/// totals over the steps, edges and paths those of the rank that writes it.
nlohmann::json transfer_json(const SteadyState& steady,
                             std::span<const weft::TransferCounters> ranks);

}  // namespace charlm
