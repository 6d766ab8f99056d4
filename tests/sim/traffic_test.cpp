// The protocol of slots under everything that a fabric may do: a fresh job from every seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "p2p/transport/sim/random.hpp"
#include "tests/pattern.hpp"
#include "tests/sim/fresh_seeds.hpp"
#include "tests/sim/traffic.hpp"

namespace weft::tests {
namespace {

using p2p::sim::Random;

std::vector<std::uint64_t> past_failures() {
  std::vector<std::uint64_t> seeds;
  std::ifstream file(WEFT_PAST_FAILURES);
  for (std::string line; std::getline(file, line);) {
    std::uint64_t seed = 0;
    if (std::istringstream(line) >> seed) seeds.push_back(seed);
  }
  return seeds;
}

/// Half of the jobs are healthy but have faults, a quarter has none, a quarter loses ranks or
/// connections.
SimOptions options_of(std::uint64_t seed, Plant plant) {
  Random random(mix(seed ^ 0x66617565U));
  SimOptions options{.seed = seed, .faults = {}, .plant = plant};
  const auto kind = random.below(4);
  if (kind == 0) return options;
  options.faults = drawn_faults(random);
  if (kind == 1 && plant == Plant::none) {
    options.faults.kills = static_cast<int>(random.below(3));
    options.faults.drops = options.faults.kills == 0 || random.chance(0.3) ? 1 : 0;
  }
  return options;
}

SimOutcome run(std::uint64_t seed, Plant plant = Plant::none) {
  SimOptions options = options_of(seed, plant);
  options.print = std::getenv("WEFT_TEST_TRACE") != nullptr;
  Traffic traffic{.seed = seed, .ranks = static_cast<int>(2 + seed % 3)};
  traffic.losses = options.faults.kills > 0 || options.faults.drops > 0;
  SimJob job(traffic.ranks, options, simulated_settings());
  return job.run([&](World& world) { run_traffic(job, world, traffic); });
}

/// Failures that the losses of the job explain: a rank that could not join, because another died
/// first.
bool is_explained(const std::string& failure, const SimOptions& options) {
  if (options.faults.kills == 0 && options.faults.drops == 0) return false;
  return failure.find("join") != std::string::npos;
}

void expect_well(std::uint64_t seed) {
  const SimOutcome outcome = run(seed);
  const SimOptions options = options_of(seed, Plant::none);
  for (const std::string& failure : outcome.failures)
    if (!is_explained(failure, options)) {
      ADD_FAILURE() << "seed " << seed << ": " << failure << "\nseed " << seed
                    << ": replay with --seed " << seed;
      return;
    }
}

TEST(Traffic, ArrivesOnceWholeAndInOrderWhateverHappensToTheJob) {
  for_fresh_seeds(500, 20'000, [](std::uint64_t seed) { expect_well(seed); });
}

TEST(Traffic, StillDoesSoWhereItOnceFailed) {
  for (const std::uint64_t seed : past_failures()) expect_well(seed);
}

/// The number of the first seeds that fail with a plant, and with these symptoms.
int caught(Plant plant, const std::vector<std::string>& symptoms) {
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const SimOutcome outcome = run(seed, plant);
    caught += std::any_of(
        outcome.failures.begin(), outcome.failures.end(), [&](const std::string& failure) {
          return std::any_of(symptoms.begin(), symptoms.end(), [&](const std::string& symptom) {
            return failure.find(symptom) != std::string::npos;
          });
        });
  }
  return caught;
}

TEST(PlantedDefect, AnnouncingATensorBeforeItIsThereIsADataMismatch) {
  EXPECT_GT(caught(Plant::torn_put, {"data mismatch in slot \"edge "}), 0);
}

TEST(PlantedDefect, APutAfterTheTeardownIsExpectedByNobody) {
  EXPECT_GT(caught(Plant::late_put, {"is not expected"}), 0);
}

TEST(PlantedDefect, APutThatEndsBeforeItsSourceWasReadIsADataMismatch) {
  EXPECT_GT(caught(Plant::early_end, {"data mismatch in slot \"edge "}), 0);
}

TEST(PlantedDefect, ALostCreditIsATimeoutThatNamesTheSlot) {
  EXPECT_GT(caught(Plant::lost_credit, {"timeout: no progress on slot \"edge "}), 0);
}

TEST(PlantedDefect, WithNoneTheSameSeedsAreWell) {
  EXPECT_EQ(caught(Plant::none, {"seed", "slot", "rank"}), 0);
}

}  // namespace
}  // namespace weft::tests
