// Summary statistics of a series of measurements.
#pragma once

#include <span>
#include <vector>

namespace weft::bench {

/// The quantile at `fraction` (0 to 1), interpolated between neighbouring sorted values. Requires
/// at least one value.
double quantile(std::span<const double> values, double fraction);

/// Requires at least one value.
double median(std::span<const double> values);

/// The interquartile range divided by the median; 0 if all values are equal. Requires at least one
/// value and a median other than 0.
double spread(std::span<const double> values);

/// Relative uncertainty of the median: spread() divided by the square root of the number of values.
/// Requires the same as spread().
double spread_of_median(std::span<const double> values);

/// Elementwise a[i] / b[i], up to the shorter length.
std::vector<double> ratios(std::span<const double> a, std::span<const double> b);

/// Elementwise factor * a[i] + b[i], up to the shorter length.
std::vector<double> scaled_sum(double factor, std::span<const double> a, std::span<const double> b);

/// Elementwise a[i] + fraction * (b[i] - a[i]), up to the shorter length.
std::vector<double> between(std::span<const double> a, std::span<const double> b, double fraction);

}  // namespace weft::bench
