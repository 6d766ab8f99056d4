#include "benchmarks/harness/transfer.hpp"

#include <algorithm>

namespace weft::bench {

std::uint64_t TransferCount::within(std::chrono::nanoseconds budget, std::chrono::nanoseconds one) {
  const auto fitting = budget / std::max(one, std::chrono::nanoseconds(1));
  return std::clamp(static_cast<std::uint64_t>(std::max<std::int64_t>(fitting, 0)), kLeast, kMost);
}

}  // namespace weft::bench
