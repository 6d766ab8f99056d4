#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/optimizer.hpp"

namespace weft::pslib {

double Schedule::factor(std::uint64_t update) const noexcept {
  update = std::max<std::uint64_t>(update, 1);  // there is no update before the first
  if (update <= warmup) return static_cast<double>(update) / static_cast<double>(warmup);
  const std::uint64_t done = update - warmup - 1;
  const double periods = static_cast<double>(done) / static_cast<double>(period);
  switch (kind) {
    case Kind::constant:
      return 1.0;
    case Kind::step:
      return std::pow(gamma, std::floor(periods));
    case Kind::exponential:
      return std::pow(gamma, periods);
    case Kind::linear:
      return 1.0 + (floor - 1.0) * std::min(periods, 1.0);
    case Kind::cosine:
      return floor +
             (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(periods, 1.0)));
  }
  return 1.0;
}

}  // namespace weft::pslib
