// The few numbers that a series of measurements is summed up in.
#pragma once

#include <span>
#include <vector>

namespace weft::bench {

/// The value below which `fraction` (0 to 1) of the sorted values lie, interpolated between
/// neighbours. Requires at least one value.
double quantile(std::span<const double> values, double fraction);

/// Requires at least one value.
double median(std::span<const double> values);

/// The interquartile range relative to the median: 0 for values that are all alike. Requires at
/// least one value, and a median that is not 0.
double spread(std::span<const double> values);

/// How far chance moves the median of as many values, relative to it: their spread by the root of
/// their number. Requires what spread() does.
double spread_of_median(std::span<const double> values);

/// Element by element: a[i] / b[i], up to the shorter one's end.
std::vector<double> ratios(std::span<const double> a, std::span<const double> b);

/// Element by element: factor * a[i] + b[i], up to the shorter one's end.
std::vector<double> scaled_sum(double factor, std::span<const double> a, std::span<const double> b);

/// Element by element: the point that lies `fraction` of the way from a[i] to b[i], up to the
/// shorter one's end.
std::vector<double> between(std::span<const double> a, std::span<const double> b, double fraction);

}  // namespace weft::bench
