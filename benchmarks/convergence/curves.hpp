// The courses of an example by each way, and what they say together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/convergence/course.hpp"

namespace weft::bench {

/// All runs by one way.
struct WayRuns {
  std::string_view way;
  std::string fabric;  ///< as it is shown: "shm", "Unix socket"
  std::vector<Course> runs;
};

/// An example and its runs, of which all have as many steps.
struct Experiment {
  const Subject* subject = nullptr;
  int steps = 0;
  std::vector<WayRuns> ways;
};

/// Losses jump from step to step, so the target counts for the mean of this many.
inline constexpr std::size_t kRecentSteps = 20;

/// The measure of the mean of the last kRecentSteps losses, up to step `at`.
double recent(const Subject& subject, const std::vector<double>& losses, std::size_t at);
/// The first step, from 0, after which the target is reached; none: it is not.
std::optional<std::size_t> target_step(const Subject& subject, const std::vector<double>& losses);
/// Those of the first run by the first way.
const std::vector<double>& losses_of(const Experiment& experiment);
/// True if all runs by all ways have the same losses, bit by bit.
bool same_losses(const Experiment& experiment);

/// A way's seconds until the target is reached, or until the end where it isn't.
struct Timing {
  std::vector<double> of_runs;
  double median = 0;
  double spread = 0;     ///< relative uncertainty of the median
  double over_best = 0;  ///< median of this way's times by those of the experiment's first way
  double over_best_spread = 0;
};
/// Requires runs by each way.
std::vector<Timing> timings(const Experiment& experiment);
/// Seconds at the end of each step, the median over the runs.
std::vector<double> median_seconds(const WayRuns& way);

}  // namespace weft::bench
