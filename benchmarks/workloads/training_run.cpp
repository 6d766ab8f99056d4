#include "benchmarks/workloads/training_run.hpp"

#include <algorithm>

#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/compute_times.hpp"
#include "benchmarks/workloads/layers.hpp"

namespace weft::bench {
namespace {

constexpr int kWarmUp = 2;

/// Costs of this rank's sending ends so far.
TransferCounters sent_by(const dataflow::Executor& executor) {
  TransferCounters sent;
  for (const dataflow::EdgeActivity& end : executor.report().edges)
    if (end.role == Role::puts || end.role == Role::publishes) sent += end.counters;
  return sent;
}

/// About how long one processor multiplies in a step.
double multiplied_ms(const Model& model, std::size_t batch) {
  constexpr double kInAMs = 1e7;
  double all = 0;
  for (const Layer& layer : layers_of(model)) all += layer.multiplications;
  return 3 * all * static_cast<double>(batch) / kInAMs;
}

/// Registrations of this rank so far, by any path or slot.
std::uint64_t registrations_of(const World& world) {
  std::uint64_t all = 0;
  const Report report = world.report();
  for (const PathReport& path : report.paths) all += path.counters.registrations;
  for (const EdgeReport& edge : report.edges) all += edge.counters.registrations;
  return all;
}

RunRow measure(World& world, const TrainingOptions& options, ReplayedTraining& training,
               dataflow::Executor& executor, std::size_t batch) {
  const std::uint64_t steps =
      training_steps(model_called(options.model), batch, options.budget.count(), options.compute);
  training.set_batch(batch);
  for (int i = 0; i < kWarmUp; ++i) training.step(executor);
  const TransferCounters before = sent_by(executor);
  const std::uint64_t registered = registrations_of(world);
  const double spent = timed([&] {
    for (std::uint64_t i = 0; i < steps; ++i) training.step(executor);
  });
  const TransferCounters sent = sent_by(executor) - before;
  if (options.check) training.check(executor, world.rank());
  const auto by_step = [&](std::uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(steps);
  };
  return {.size = batch,
          .kind = {},
          .values = {{"step", spent / static_cast<double>(steps)}},
          .figures = {{"transfers", by_step(sent.transfers)},
                      {"bytes_copied", by_step(sent.bytes_copied)},
                      {"registrations", by_step(registrations_of(world) - registered)},
                      {"registered_before", static_cast<double>(registered)}}};
}

}  // namespace

std::uint64_t training_steps(const Model& model, std::size_t batch, std::int64_t budget_ms,
                             std::string_view compute) {
  const double moved_ms = 2 * static_cast<double>(model.bytes()) / 2e6;
  const double computed_ms =
      compute == kReal ? multiplied_ms(model, batch) : compute_ms(model, batch);
  const double steps = static_cast<double>(budget_ms) / (computed_ms + moved_ms);
  return static_cast<std::uint64_t>(std::clamp(steps, 3.0, 100.0));
}

std::vector<RunRow> measure_training(World& world, const TrainingOptions& options,
                                     const MakeTrainer& make) {
  const Model& model = model_called(options.model);
  std::vector<RunRow> rows;
  for (const std::string& way : options.ways) {
    ReplayedTraining training(model, world.size(),
                              options.compute == kReal ? Compute::real : Compute::replayed);
    dataflow::Executor executor = make(world, training, options.model + "." + way, way);
    for (const std::size_t batch : options.batches) {
      RunRow row = measure(world, options, training, executor, batch);
      row.kind = way;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace weft::bench
