// Figure 11: the graph's analysis off and on.
#include <fmt/format.h>

#include <string>

#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/experiments/runs.hpp"
#include "benchmarks/harness/statistics.hpp"

namespace weft::bench {

Sheet run_fig11(const ExperimentOptions& options) {
  ExperimentOptions own;
  own.batches = {8};
  own.ranks = {2};
  own.ways = {std::string(own_way(options)), std::string(kSlotsWay), std::string(kCopiedWay)};
  const auto jobs = jobs_of(options, own);
  const Measured measured = measure_jobs(options, jobs);
  Sheet sheet{.name = options.name,
              .title = "a step with the analysis off (" + std::string(kCopiedWay) + ") and on, " +
                       place_text(options, jobs),
              .columns = {"model", "ranks", "batch", "way", "step_ms", "spread", "low", "high",
                          "copied_mb", "over_off", "over_off_spread"}};
  for (const auto& [point, seen] : measured.points()) {
    Point off = point;
    off.way = kCopiedWay;
    const auto over = measured.ratio(point, off);
    std::vector<double> ms;
    for (const double rate : seen.steps_per_s) ms.push_back(1e3 / rate);
    sheet.rows.push_back({point.model, static_cast<double>(point.ranks),
                          static_cast<double>(point.batch), point.way, median(ms), spread(ms),
                          std::ranges::min(ms), std::ranges::max(ms),
                          median(seen.figures.at("bytes_copied")) / 1e6,
                          over ? Cell(over->median) : Cell(std::string()),
                          over ? Cell(over->spread) : Cell(std::string())});
  }
  for (const TrainingOptions& job : jobs)
    for (const std::size_t batch : job.batches) {
      const Point on{job.model, job.ranks, batch, std::string(own_way(options))};
      const Point slots{job.model, job.ranks, batch, std::string(kSlotsWay)};
      const Point off{job.model, job.ranks, batch, std::string(kCopiedWay)};
      sheet.beside.push_back(fmt::format(
          "{}, batch {}: on ({}) over off: {}; slots over off: {}", job.model, batch, on.way,
          gain_text(measured.ratio(on, off)), gain_text(measured.ratio(slots, off))));
    }
  sheet.beside.emplace_back("the paper, batch 8: up to 21 %; little for Inception-v3 and GRU");
  sheet.drawing = Drawing{.line = "way",
                          .x = "model",
                          .y = "step_ms",
                          .low = "low",
                          .high = "high",
                          .x_label = "model",
                          .y_label = "ms of a step"};
  return sheet;
}

}  // namespace weft::bench
