// The one source of chance in a simulation.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/mix64.hpp"

namespace weft::p2p::sim {

/// SplitMix64: the same numbers from the same seed on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept { return mix64(state_ += kGolden64); }
  /// 0 to limit - 1; 0 for a limit of 0.
  std::uint64_t below(std::uint64_t limit) noexcept { return limit == 0 ? 0 : next() % limit; }
  bool chance(double probability) noexcept {
    return static_cast<double>(next() >> 11U) < probability * 0x1p53;
  }
  /// From `least` up to `most`.
  std::chrono::nanoseconds between(std::chrono::nanoseconds least,
                                   std::chrono::nanoseconds most) noexcept {
    if (most <= least) return least;
    const auto span = static_cast<std::uint64_t>((most - least).count()) + 1;
    return least + std::chrono::nanoseconds(static_cast<std::int64_t>(below(span)));
  }

 private:
  std::uint64_t state_;
};

}  // namespace weft::p2p::sim
