// The benchmark `checks`: promises about ratios of weft's own times, and whether they hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/output/report.hpp"

namespace weft::bench {

/// Figure of a judged row.
inline constexpr std::string_view kSlower = "slower";

/// The larger of the spread between the runs and that of their medians themselves.
double noise_of(const Row& row);

/// Gives each row its kSlower: 1 where the ratio is above what is allowed and exceeds 1 by more
/// than the noise, else 0. Rows need kAllowed and kSpread.
void judge(std::vector<Row>& rows);

/// Whether one of judged rows fails.
bool any_slower(const std::vector<Row>& rows);

/// A line for each of judged rows: both times, their ratio, its noise, and `ok` or `slower`; the
/// rule is above them.
std::string verdicts(const std::vector<Row>& rows);

}  // namespace weft::bench
