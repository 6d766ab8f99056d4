#include "benchmarks/convergence/curves.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "benchmarks/harness/statistics.hpp"

namespace weft::bench {
namespace {

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

}  // namespace

const std::vector<double>& losses_of(const Experiment& experiment) {
  return experiment.ways.front().runs.front().losses;
}

double recent(const Subject& subject, const std::vector<double>& losses, std::size_t at) {
  const std::size_t count = std::min(at + 1, kRecentSteps);
  const auto end = losses.begin() + static_cast<std::ptrdiff_t>(at + 1);
  const double sum = std::accumulate(end - static_cast<std::ptrdiff_t>(count), end, 0.0);
  return measured(subject, sum / static_cast<double>(count));
}

std::optional<std::size_t> target_step(const Subject& subject, const std::vector<double>& losses) {
  for (std::size_t at = kRecentSteps - 1; at < losses.size(); ++at)
    if (recent(subject, losses, at) <= subject.target) return at;
  return std::nullopt;
}

bool same_losses(const Experiment& experiment) {
  const std::vector<double>& first = losses_of(experiment);
  for (const WayRuns& way : experiment.ways)
    for (const Course& course : way.runs)
      if (!same_bits(course.losses, first)) return false;
  return true;
}

std::vector<Timing> timings(const Experiment& experiment) {
  const auto reached = target_step(*experiment.subject, losses_of(experiment));
  const std::size_t at = reached.value_or(static_cast<std::size_t>(experiment.steps) - 1);
  std::vector<Timing> all;
  for (const WayRuns& way : experiment.ways) {
    Timing timing;
    for (const Course& course : way.runs) timing.of_runs.push_back(course.seconds.at(at));
    timing.median = median(timing.of_runs);
    timing.spread = spread_of_median(timing.of_runs);
    const auto compared =
        ratios(timing.of_runs, all.empty() ? timing.of_runs : all.front().of_runs);
    timing.over_best = median(compared);
    timing.over_best_spread = spread_of_median(compared);
    all.push_back(std::move(timing));
  }
  return all;
}

std::vector<double> median_seconds(const WayRuns& way) {
  std::vector<double> all;
  for (std::size_t step = 0; step < way.runs.front().seconds.size(); ++step) {
    std::vector<double> of_step;
    for (const Course& course : way.runs) of_step.push_back(course.seconds.at(step));
    all.push_back(median(of_step));
  }
  return all;
}

}  // namespace weft::bench
