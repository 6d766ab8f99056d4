// Figure 10: how training scales, beside local training.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/experiments/paper.hpp"
#include "benchmarks/experiments/runs.hpp"
#include "benchmarks/harness/statistics.hpp"

namespace weft::bench {
namespace {

constexpr std::string_view kLocal = "local";

/// A rank alone, whose graph has no edges.
const PointRuns* local_of(const Measured& measured, const Point& point) {
  for (const auto& [other, seen] : measured.points())
    if (other.model == point.model && other.batch == point.batch && other.ranks == 1) return &seen;
  return nullptr;
}

/// All ranks' samples over a rank's alone.
std::optional<Figure> over_local(const Measured& measured, const Point& point) {
  const PointRuns* const local = local_of(measured, point);
  const PointRuns* const seen = measured.find(point);
  if (local == nullptr || seen == nullptr) return std::nullopt;
  auto all = ratios(seen->steps_per_s, local->steps_per_s);
  for (double& ratio : all) ratio *= point.ranks;
  return Figure{median(all), spread(all)};
}

/// The fewest ranks that beat a rank alone by this way, of those measured.
std::string beats_from(const Measured& measured, const Point& point) {
  for (const auto& [other, seen] : measured.points()) {
    if (other.model != point.model || other.batch != point.batch || other.way != point.way ||
        other.ranks == 1)
      continue;
    const auto over = over_local(measured, other);
    if (over && over->median > 1) return std::to_string(other.ranks) + " ranks";
  }
  return "no number of ranks measured";
}

std::string times_text(const std::optional<Figure>& over) {
  return over ? fmt::format("{:.2f} (spread {:.0f} %)", over->median, 100 * over->spread)
              : "not measured";
}

}  // namespace

Sheet run_fig10(const ExperimentOptions& options) {
  ExperimentOptions own;
  own.models = {"lstm", "inception", "vgg-16"};
  own.batches = {32};
  own.ranks = options.quick ? std::vector{1, 2, 4} : std::vector{1, 2, 3, 4, 6, 8};
  own.ways = {std::string(own_way(options)), std::string(kRpcWay), std::string(kGrpcWay)};
  auto jobs = jobs_of(options, own);
  // All figures are beside a rank alone.
  for (std::size_t i = jobs.size(); i-- > 0;)
    if (std::ranges::none_of(jobs, [&](const TrainingOptions& job) {
          return job.model == jobs[i].model && job.ranks == 1;
        })) {
      TrainingOptions local = jobs[i];
      local.ranks = 1;
      local.ways = {std::string(own_way(options))};
      jobs.insert(jobs.begin(), std::move(local));
      ++i;
    }
  const Measured measured = measure_jobs(options, jobs);
  Sheet sheet = sheet_of(options, measured);
  sheet.title = "samples per second of all ranks, " + place_text(options, jobs);
  sheet.columns.insert(sheet.columns.end(), {"samples_per_s", "over_local", "over_local_spread"});
  std::size_t at = 0;
  for (const auto& [point, seen] : measured.points()) {
    std::vector<Cell>& row = sheet.rows[at++];
    if (point.ranks == 1) row[3] = std::string(kLocal);
    const auto over = over_local(measured, point);
    row.emplace_back(median(seen.steps_per_s) * point.ranks * static_cast<double>(point.batch));
    row.push_back(over ? Cell(over->median) : Cell(std::string()));
    row.push_back(over ? Cell(over->spread) : Cell(std::string()));
  }
  for (const PaperScaling& paper : kPaperScaling) {
    int most = 0;
    std::size_t batch = 0;
    for (const TrainingOptions& job : jobs)
      if (job.model == paper.model) {
        most = std::max(most, job.ranks);
        batch = job.batches.front();
      }
    if (most < 2) continue;
    const Point point{std::string(paper.model), most, batch, std::string(own_way(options))};
    Point rpc = point;
    rpc.way = kRpcWay;
    sheet.beside.push_back(fmt::format(
        "{} on {} ranks: {} times local by {}, {} over rpc; local is beaten from {}, by rpc from "
        "{}; the paper on 8 servers: {} times local ({} times one server), {} % over gRPC.RDMA; "
        "beaten from 2, by gRPC.RDMA from {}",
        paper.model, most, times_text(over_local(measured, point)), point.way,
        gain_text(measured.ratio(point, rpc)), beats_from(measured, point),
        beats_from(measured, rpc), paper.over_local, paper.over_single, paper.over_rpc,
        paper.rpc_beats));
  }
  sheet.drawing = Drawing{.panel = "model",
                          .line = "way",
                          .x = "ranks",
                          .y = "over_local",
                          .x_label = "ranks",
                          .y_label = "samples per second, over one rank alone"};
  return sheet;
}

}  // namespace weft::bench
