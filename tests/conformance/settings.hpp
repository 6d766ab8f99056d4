// The size and duration of the bodies: set by the runner, the same on every rank.
#pragma once

#include <chrono>
#include <cstdint>

#include "tests/conformance/ends.hpp"

namespace weft::conformance {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

struct Settings {
  std::uint64_t seed = 1;
  std::int64_t large = kSanitized ? 1 << 20 : 8 << 20;  ///< bytes of a large tensor
  int many = kSanitized ? 200 : 1000;                   ///< tensors whose order is checked
  std::chrono::nanoseconds soak = std::chrono::seconds(1);
  int churn_slots = 1000;  ///< in the whole job, at once
  int churn_cycles = 3;
  Ends ends;
};

/// Process-wide. Set before a job begins.
inline Settings& settings() {
  static Settings current;
  return current;
}

/// WEFT_TEST_SEED, or a new one.
std::uint64_t seed_to_use();

}  // namespace weft::conformance
