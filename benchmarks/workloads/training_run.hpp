// Measures the steps of an experiment, whatever the way of the edges.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/harness/training_protocol.hpp"
#include "benchmarks/workloads/training.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Makes the executor of a way. Called on each rank.
using MakeTrainer = std::function<dataflow::Executor(
    World&, ReplayedTraining&, const std::string& name, std::string_view way)>;

/// Steps of one measurement, equal on every rank: as many as fit the budget if the rank computes
/// for the paper's time, or multiplies 1e10 times a second, and moves 2 bytes per nanosecond; from
/// 3 to 100.
std::uint64_t training_steps(const Model& model, std::size_t batch, std::int64_t budget_ms,
                             std::string_view compute);

/// A row for each way and batch, in this order: `size` is the batch, `kind` the way, and the value
/// "step" the microseconds of a step by this rank's clock. Figures are those of the ends at which
/// this rank sends, by step: "transfers", "bytes_copied"; and the rank's "registrations" of memory,
/// by step, and those before the steps as "registered_before".
/// Collective. Throws Error; std::runtime_error for an unknown model, or if parameters are wrong.
std::vector<RunRow> measure_training(World& world, const TrainingOptions& options,
                                     const MakeTrainer& make);

/// A rank of a run of weft's own ways: joins the job and, on rank 0, prints the rows. Returns the
/// exit code.
int train(const TrainingOptions& options);

}  // namespace weft::bench
