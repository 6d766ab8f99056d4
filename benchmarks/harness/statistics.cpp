#include "benchmarks/harness/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace weft::bench {

double quantile(std::span<const double> values, double fraction) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

double spread(std::span<const double> values) {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

double spread_of_median(std::span<const double> values) {
  return spread(values) / std::sqrt(static_cast<double>(values.size()));
}

std::vector<double> ratios(std::span<const double> a, std::span<const double> b) {
  std::vector<double> result(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = a[i] / b[i];
  return result;
}

std::vector<double> scaled_sum(double factor, std::span<const double> a,
                               std::span<const double> b) {
  std::vector<double> result(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = factor * a[i] + b[i];
  return result;
}

std::vector<double> between(std::span<const double> a, std::span<const double> b, double fraction) {
  std::vector<double> result(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::lerp(a[i], b[i], fraction);
  return result;
}

}  // namespace weft::bench
