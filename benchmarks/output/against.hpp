// The verdict whether this build is slower than another: the text of --against below the rows.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/output/report.hpp"

namespace weft::bench {

/// The ratio to another build above which a row may be called worse.
inline constexpr double kMostRatio = 1.03;

/// True if this build is slower than the other beyond the noise: the median ratio is above
/// kMostRatio, and above 1 with the spread over the pairs taken off.
bool is_worse(const Comparison& against);

/// A line for each row that is worse, with the limit's ratio beside its own, or one line that says
/// that no row is. The first line begins with "against" and names `path`.
std::string against_text(const std::string& path, const std::vector<Row>& rows);

}  // namespace weft::bench
