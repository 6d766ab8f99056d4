// Runs of jobs that train, weft's and gRPC's by turns.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/harness/training_protocol.hpp"

namespace weft::bench {

struct Point {
  std::string model;
  int ranks = 2;
  std::size_t batch = 1;
  std::string way;

  friend auto operator<=>(const Point&, const Point&) = default;
};

/// One point's runs, in their order; those of all points of a job stem from the same launches.
struct PointRuns {
  std::vector<double> steps_per_s{};
  std::map<std::string, std::vector<double>> figures{};
};

/// A median, and the interquartile range of the runs relative to it.
struct Figure {
  double median = 0;
  double spread = 0;
};

class Measured {
 public:
  void add(const Point& point, double steps_per_s, const std::map<std::string, double>& figures);

  const std::map<Point, PointRuns>& points() const noexcept { return points_; }
  /// Null if it was not measured.
  const PointRuns* find(const Point& point) const;
  /// The point's steps per second over the other's, by runs; none unless both were measured.
  std::optional<Figure> ratio(const Point& point, const Point& other) const;

 private:
  std::map<Point, PointRuns> points_;
};

/// The jobs of an experiment: a job for each model and number of ranks, with all batches and ways.
/// Options that are given replace `own`'s; `own.models` empty: all models.
std::vector<TrainingOptions> jobs_of(const ExperimentOptions& options,
                                     const ExperimentOptions& own);

/// Launches each job options.run_count() times, weft's ways and gRPC's in turn. Prints to stderr
/// the progress, and a line for each way that is skipped: short memory, a missing peer or device,
/// or a run that failed.
Measured measure_jobs(const ExperimentOptions& options, const std::vector<TrainingOptions>& jobs);

/// The bytes that all ranks of a job hold at once.
std::size_t memory_of(std::size_t model_bytes, int ranks, std::string_view way);

/// weft's way of its own choice on a fabric: views where ranks share memory, otherwise slots.
std::string_view own_way(const ExperimentOptions& options);

/// "2 ranks, shm, replayed compute" and so on, for titles.
std::string place_text(const ExperimentOptions& options, const std::vector<TrainingOptions>& jobs);

/// The sheet's rows by point: model, ranks, batch, way, steps per second with their spread, lowest
/// and highest run, and the gain over RPC and over gRPC in percent with its spread.
Sheet sheet_of(const ExperimentOptions& options, const Measured& measured);

/// "83 % (spread 4 %)", or "not measured".
std::string gain_text(const std::optional<Figure>& ratio);

}  // namespace weft::bench
