// The poster's figures: VGG-16 on four ranks, and what registering memory takes.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/experiments/runs.hpp"
#include "benchmarks/harness/statistics.hpp"

namespace weft::bench {
namespace {

/// The median over all runs.
double figure_of(const PointRuns& seen, const std::string& name) {
  return median(seen.figures.at(name));
}

/// The part of transfers in measured steps that registered no memory.
double unregistered(const PointRuns& seen) {
  const double transfers = figure_of(seen, "transfers");
  if (transfers == 0) return 1;
  return std::max(0.0, 1 - figure_of(seen, "registrations") / transfers);
}

/// The part of a step's time beyond that by the arena.
double time_beyond(const Measured& measured, const Point& point) {
  Point arena = point;
  arena.way = kSlotsWay;
  const auto ratio = measured.ratio(point, arena);
  return ratio ? std::max(0.0, 1 - ratio->median) : 0;
}

}  // namespace

Sheet run_poster(const ExperimentOptions& options) {
  ExperimentOptions speed;
  speed.models = {"vgg-16"};
  speed.batches = {32};
  speed.ranks = {4};
  speed.ways = {std::string(own_way(options)), std::string(kCopiedWay), std::string(kRpcWay),
                std::string(kGrpcWay)};
  ExperimentOptions modes;
  modes.models = {"lstm"};
  modes.batches = {1};
  modes.ranks = {2};
  modes.ways = {std::string(kSlotsWay), std::string(kTracedWay), std::string(kRegisteredWay),
                std::string(kCopiedWay)};
  auto jobs = jobs_of(options, speed);
  // Options that name models or ways choose one of the two parts.
  if (options.models.empty() && options.ways.empty()) {
    ExperimentOptions no_ranks = options;
    no_ranks.ranks.clear();
    no_ranks.batches.clear();
    for (TrainingOptions& job : jobs_of(no_ranks, modes)) jobs.push_back(std::move(job));
  }
  const Measured measured = measure_jobs(options, jobs);
  Sheet sheet = sheet_of(options, measured);
  sheet.title =
      "VGG-16 by each way, the LSTM by each registration mode (slots: the arena; copied: "
      "plain memory), " +
      place_text(options, jobs);
  sheet.columns.insert(sheet.columns.end(), {"transfers", "registrations", "registered_before",
                                             "unregistered", "time_beyond_arena"});
  std::size_t at = 0;
  for (const auto& [point, seen] : measured.points()) {
    std::vector<Cell>& row = sheet.rows[at++];
    for (const char* name : {"transfers", "registrations", "registered_before"})
      row.emplace_back(figure_of(seen, name));
    row.emplace_back(unregistered(seen));
    row.emplace_back(time_beyond(measured, point));
  }
  for (const TrainingOptions& job : jobs) {
    const Point own{job.model, job.ranks, job.batches.front(), job.ways.front()};
    Point rpc = own;
    rpc.way = kRpcWay;
    Point grpc = own;
    grpc.way = kGrpcWay;
    const auto over = [&](const Point& other) {
      const auto ratio = measured.ratio(own, other);
      return ratio
                 ? fmt::format("{:.2f} times (spread {:.0f} %)", ratio->median, 100 * ratio->spread)
                 : std::string("not measured");
    };
    if (job.model == "vgg-16")
      sheet.beside.push_back(fmt::format(
          "vgg-16 on {} ranks by {}: {} gRPC, {} rpc with private buffers; the poster, 4 workers "
          "and servers: 2.43 times gRPC, 1.21 times private buffers",
          job.ranks, own.way, over(grpc), over(rpc)));
    const PointRuns* const seen =
        measured.find({job.model, job.ranks, own.batch, std::string(kSlotsWay)});
    if (job.model == "lstm" && seen != nullptr)
      sheet.beside.push_back(fmt::format(
          "lstm by the arena: {:.1f} % of the transfers in the steps register nothing, so "
          "registration takes {} of their time; the poster: 82.6 %, 2.7 %",
          100 * unregistered(*seen),
          figure_of(*seen, "registrations") == 0 ? "nothing" : "a part that is not measured"));
  }
  sheet.drawing = Drawing{.panel = "model",
                          .x = "way",
                          .y = "steps_per_s",
                          .low = "low",
                          .high = "high",
                          .x_label = "way",
                          .y_label = "steps per second"};
  return sheet;
}

}  // namespace weft::bench
