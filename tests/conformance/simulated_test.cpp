// Runs the bodies between ranks that take turns on one thread, over a simulated fabric with random
// delays and order.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/conformance/runner.hpp"
#include "tests/conformance/settings.hpp"
#include "tests/sim/simulated_job.hpp"

namespace weft::conformance {
namespace {

Bodies simulated_bodies() {
  Bodies bodies = all_bodies();
  std::erase_if(bodies, [](const Body& body) { return body.needs_threads; });
  bodies.push_back({"soak", soak});
  return bodies;
}

/// Faults that harm no healthy job; every fourth seed has none of them.
tests::SimOptions options_of(std::uint64_t seed) {
  tests::SimOptions options{.seed = seed};
  if (seed % 4 != 0) options.faults = tests::kHarmlessFaults;
  return options;
}

/// Fewer rank counts under a sanitizer: three ranks show the sanitizer what more would.
const std::vector<int> kRanks = kSanitized ? std::vector{3} : std::vector{1, 2, 3, 5};

class Simulated : public testing::TestWithParam<std::tuple<Body, int>> {};

TEST_P(Simulated, Holds) {
  const Body& body = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());
  const bool chosen = std::getenv("WEFT_TEST_SEED") != nullptr;
  const std::uint64_t first = seed_to_use();
  settings().large = 300'000;
  settings().soak = std::chrono::milliseconds(5);
  for (std::uint64_t seed = first; seed < first + (chosen ? 1 : 4); ++seed) {
    settings().seed = seed;
    const auto config = tests::simulated_settings().with(Setting::arena_chunk, "2m");
    try {
      tests::run_simulated(
          ranks, [&](World& world) { Runner(world).run(body); }, options_of(seed), config);
    } catch (const std::exception& error) {
      ADD_FAILURE() << body.name << ": " << error.what() << "\nWEFT_TEST_SEED=" << seed
                    << " repeats this run";
      return;
    }
  }
}

std::string test_name(const testing::TestParamInfo<std::tuple<Body, int>>& info) {
  return std::string(std::get<0>(info.param).name) + "_of_" +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Bodies, Simulated,
                         testing::Combine(testing::ValuesIn(simulated_bodies()),
                                          testing::ValuesIn(kRanks)),
                         test_name);

}  // namespace

/// How GoogleTest prints a body.
inline void PrintTo(const Body& body, std::ostream* out) { *out << body.name; }

}  // namespace weft::conformance
