// A process whose allocations fail returns errors; it neither ends nor hangs. Its peers go on or
// get errors too.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/threads/shortage/job.hpp"

namespace weft::tests {
namespace {

/// The text of an error fits into less.
constexpr std::size_t kLarge = 1024;

/// Failures drawn, and those of the last allocations. A sanitizer is slow.
#if defined(__SANITIZE_ADDRESS__)
constexpr int kFew = 4;
constexpr std::uint64_t kLast = 16;
#else
constexpr int kFew = 10;
constexpr std::uint64_t kLast = 48;
#endif

bool is_full() {
  const char* const full = std::getenv("WEFT_TEST_FULL");
  return full != nullptr && std::string(full) == "1";
}

class AllocationFailures : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "this program's allocator takes the place of ThreadSanitizer's";
#endif
  }

  static ShortageJob job(Shortage shortage) {
    return {.fabric = std::get<0>(GetParam()),
            .workload = std::get<1>(GetParam()),
            .shortage = shortage};
  }

  /// The allocations of at least `least` bytes of a job without any failure; 0 if it fails.
  static std::uint64_t count(std::size_t least) {
    const ShortageOutcome whole = run({job({.least = least})}).front();
    EXPECT_EQ(whole.broken, "") << "without any failure";
    EXPECT_GT(whole.allocations, 0U);
    return whole.broken.empty() ? whole.allocations : 0;
  }

  /// Runs the jobs, of `all` allocations each; `drawn` says how their failures were chosen.
  static void expect_to_end_well(const std::vector<ShortageJob>& jobs, std::uint64_t all,
                                 const std::string& drawn) {
    const std::vector<ShortageOutcome> outcomes = run(jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i)
      EXPECT_TRUE(outcomes[i].broken.empty())
          << drawn << ": allocation " << jobs[i].shortage.first << " of " << all << " of at least "
          << jobs[i].shortage.least << " bytes fails, and the process " << outcomes[i].broken;
  }

  /// Runs the job with failures at few places, which a seed draws; at 400 if WEFT_TEST_FULL is 1.
  static void fail_at(std::size_t least, bool lasts) {
    const std::uint64_t all = count(least);
    ASSERT_GT(all, 0U);
    const char* const given = std::getenv("WEFT_TEST_SEED");
    const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
    std::mt19937_64 random(seed);
    std::vector<ShortageJob> jobs;
    for (int i = 0; i < (is_full() ? 400 : kFew); ++i)
      jobs.push_back(job({.first = random() % all + 1, .least = least, .lasts = lasts}));
    // WEFT_TEST_SEED repeats the same places, not the same interleaving of threads.
    expect_to_end_well(jobs, all, "seed " + std::to_string(seed));
  }
};

TEST_P(AllocationFailures, OfOneAllocationEndNoProcess) { fail_at(0, false); }

TEST_P(AllocationFailures, OfAllLargeAllocationsEndNoProcess) { fail_at(kLarge, true); }

/// The last allocations are those of leaving, where most happens in destructors.
using AllocationFailuresAtTheEnd = AllocationFailures;
TEST_P(AllocationFailuresAtTheEnd, EndNoProcess) {
  const std::uint64_t all = count(0);
  ASSERT_GT(all, kLast);
  std::vector<ShortageJob> jobs;
  for (std::uint64_t i = 0; i < kLast; ++i) jobs.push_back(job({.first = all - i}));
  expect_to_end_well(jobs, all, "leaving");
}

INSTANTIATE_TEST_SUITE_P(Slots, AllocationFailuresAtTheEnd,
                         testing::Values(std::tuple("shm", "slots"), std::tuple("tcp", "slots")),
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(
    EveryCall, AllocationFailures,
    testing::Combine(testing::Values("shm", "tcp"),
                     testing::Values("slots", "messages", "rendezvous", "signals", "collectives",
                                     "dense_bsp", "dense_async", "sparse")),
    [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

}  // namespace
}  // namespace weft::tests
