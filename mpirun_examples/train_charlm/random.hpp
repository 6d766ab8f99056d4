// Random numbers that are equal on every machine, standard library and number of ranks.
#pragma once

#include <cstdint>

namespace charlm {

/// Scrambles 64 bits so that neighbouring inputs give unrelated outputs (the finisher of Steele,
/// Lea and Flood's SplitMix, 2014).
constexpr std::uint64_t scramble(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// A stream of numbers from a seed. Thread-safety: one thread at a time.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) noexcept : state_(scramble(seed)) {}

  constexpr std::uint64_t bits() noexcept {
    state_ += 0x9E3779B97F4A7C15U;
    return scramble(state_);
  }
  /// A number in [0, 1).
  constexpr double unit() noexcept { return static_cast<double>(bits() >> 11U) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace charlm
