// Jobs from seeds: the faults that a seed draws, and seeds that no run had before.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

#include "p2p/transport/sim/random.hpp"
#include "tests/sim/simulated_job.hpp"

namespace weft::tests {

/// Faults that harm no healthy job, each as often as `random` says.
inline Faults drawn_faults(p2p::sim::Random& random) {
  const auto up_to = [&](double most) {
    return most * static_cast<double>(random.below(1000)) / 1000;
  };
  return {.delayed = up_to(0.2),
          .reordered = up_to(0.5),
          .torn = up_to(1),
          .duplicated = up_to(0.3),
          .full_queue = up_to(0.2),
          .woken = up_to(0.1),
          .paused = up_to(0.02)};
}

/// Calls `expect_well(seed)` for WEFT_TEST_SEED alone, or for `usual` fresh seeds, of which a full
/// run has `full`.
template <typename Expect>
void for_fresh_seeds(std::uint64_t usual, std::uint64_t full, const Expect& expect_well) {
  if (const char* seed = std::getenv("WEFT_TEST_SEED"))
    return expect_well(std::strtoull(seed, nullptr, 0));
  const std::uint64_t first = std::random_device{}() * std::uint64_t{100'000};
  const std::uint64_t count = std::getenv("WEFT_TEST_FULL") != nullptr ? full : usual;
  std::cout << count << " fresh seeds from " << first << " on\n";
  for (std::uint64_t seed = first; seed < first + count; ++seed) expect_well(seed);
}

}  // namespace weft::tests
