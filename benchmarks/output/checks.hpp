// The benchmark `checks`: promises about ratios of weft's own times, and whether they hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/output/report.hpp"

namespace weft::bench {

/// The figure that judge() adds to a row.
inline constexpr std::string_view kSlower = "slower";

/// The larger of the spread within the runs and the spread between their medians.
double noise_of(const Row& row);

/// Sets kSlower of each row: 1 if the ratio is above the allowed one and exceeds 1 by more than the
/// noise, else 0. Rows need kAllowed and kSpread.
void judge(std::vector<Row>& rows);

/// True if one of the judged rows fails.
bool any_slower(const std::vector<Row>& rows);

/// A line for each judged row, below the rule: both times, their ratio, its noise, and `ok` or
/// `slower`.
std::string verdicts(const std::vector<Row>& rows);

}  // namespace weft::bench
