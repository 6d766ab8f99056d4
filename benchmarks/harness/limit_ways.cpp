#include "benchmarks/harness/limit_ways.hpp"

#include <algorithm>
#include <limits>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/statistics.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kTries = 3;  ///< before a way may be dropped
constexpr double kFarSlower = 1.5;

}  // namespace

LimitWays::LimitWays(std::vector<std::string> names) {
  for (std::string& name : names) ways_.push_back({.name = std::move(name)});
}

void LimitWays::add(std::size_t way, double us) {
  if (ways_[way].is_warm) ways_[way].times.push_back(us);
  ways_[way].is_warm = true;
}

void LimitWays::drop_slow() {
  double least = std::numeric_limits<double>::infinity();
  for (const Way& way : ways_) {
    if (way.dropped) continue;
    if (way.times.size() < kTries) return;
    least = std::min(least, median(way.times));
  }
  for (Way& way : ways_) way.dropped = way.dropped || median(way.times) > kFarSlower * least;
}

RunRow LimitWays::compared(std::size_t size, std::string_view kind, std::span<const double> weft,
                           double scale) const {
  const Way* best = nullptr;
  for (const Way& way : ways_)
    if (!way.dropped && (best == nullptr || median(way.times) < median(best->times))) best = &way;
  std::vector<double> limit = best->times;
  for (double& us : limit) us *= scale;
  RunRow row = bench::compared(size, kind, weft, limit);
  if (ways_.size() > 1)
    for (const Way& way : ways_) row.values["limit_" + way.name] = scale * median(way.times);
  return row;
}

}  // namespace weft::bench
