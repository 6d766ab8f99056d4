// Figure 8: steps per second by batch, by each way of an edge.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/experiments/paper.hpp"
#include "benchmarks/experiments/runs.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kPaperBatch = 32;

std::vector<std::string> ways_here(const ExperimentOptions& options) {
  std::vector<std::string> ways;
  if (own_way(options) == kViewsWay) ways.emplace_back(kViewsWay);
  for (const std::string_view way : {kSlotsWay, kRendezvousWay, kCopiedWay, kRpcWay, kGrpcWay})
    ways.emplace_back(way);
  return ways;
}

/// The paper's batch if it is there; else the last.
std::size_t batch_of(const std::vector<std::size_t>& batches) {
  return std::ranges::find(batches, kPaperBatch) != batches.end() ? kPaperBatch : batches.back();
}

/// The quickest way but weft's own and RPC's, and the gain over it.
std::string second_text(const Measured& measured, const Point& own) {
  std::optional<Figure> least;
  std::string second;
  for (const std::string_view way : {kCopiedWay, kRpcWay, kGrpcWay}) {
    Point other = own;
    other.way = way;
    const auto ratio = measured.ratio(own, other);
    if (!ratio || (least && least->median <= ratio->median)) continue;
    least = ratio;
    second = way;
  }
  return least ? fmt::format("; over {}, the second: {}", second, gain_text(least)) : "";
}

}  // namespace

Sheet run_fig8(const ExperimentOptions& options) {
  ExperimentOptions own;
  own.batches = options.quick ? std::vector<std::size_t>{1, 32}
                              : std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 64, 128};
  own.ranks = {2};
  own.ways = ways_here(options);
  const auto jobs = jobs_of(options, own);
  const Measured measured = measure_jobs(options, jobs);
  Sheet sheet = sheet_of(options, measured);
  sheet.title = "steps per second by batch, " + place_text(options, jobs);
  for (const TrainingOptions& job : jobs) {
    const Point point{job.model, job.ranks, batch_of(job.batches), std::string(own_way(options))};
    Point rpc = point;
    rpc.way = kRpcWay;
    Point grpc = point;
    grpc.way = kGrpcWay;
    const auto over_grpc = measured.ratio(point, grpc);
    const bool is_vgg = job.model == "vgg-16";
    sheet.beside.push_back(fmt::format(
        "{}, batch {}: {} over rpc: {}; over gRPC: {}{}; the paper: {} % over gRPC.RDMA{}",
        job.model, point.batch, point.way, gain_text(measured.ratio(point, rpc)),
        over_grpc ? fmt::format("{:.1f} times", over_grpc->median) : "not measured",
        is_vgg ? second_text(measured, point) : "", paper_of(job.model)->over_rpc,
        is_vgg ? ", 25 times gRPC.TCP (the verbs note: more than 15 % over the second)" : ""));
  }
  sheet.drawing = Drawing{.panel = "model",
                          .line = "way",
                          .x = "batch",
                          .y = "steps_per_s",
                          .low = "low",
                          .high = "high",
                          .x_label = "samples of a step",
                          .y_label = "steps per second",
                          .log_x = true,
                          .log_y = true};
  return sheet;
}

}  // namespace weft::bench
