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

class AllocationFailures : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  /// Runs the job with failures at 10 places, which a seed draws; at 400 if WEFT_TEST_FULL is 1.
  /// Under a sanitizer, which is slow, at 4.
  void fail_at(std::size_t least, bool lasts) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "this program's allocator takes the place of ThreadSanitizer's";
#endif
    ShortageJob job{.fabric = std::get<0>(GetParam()), .workload = std::get<1>(GetParam())};
    job.shortage = {.least = least, .lasts = lasts};
    const ShortageOutcome whole = run({job}).front();
    ASSERT_EQ(whole.broken, "") << "without any failure";
    ASSERT_GT(whole.allocations, 0U);
    const char* const full = std::getenv("WEFT_TEST_FULL");
#if defined(__SANITIZE_ADDRESS__)
    constexpr int few = 4;
#else
    constexpr int few = 10;
#endif
    const int tries = full != nullptr && std::string(full) == "1" ? 400 : few;
    const char* const given = std::getenv("WEFT_TEST_SEED");
    const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
    std::mt19937_64 random(seed);
    std::vector<ShortageJob> jobs;
    for (int i = 0; i < tries; ++i) {
      job.shortage.first = random() % whole.allocations + 1;
      jobs.push_back(job);
    }
    const std::vector<ShortageOutcome> outcomes = run(jobs);
    // WEFT_TEST_SEED repeats the same places, not the same interleaving of threads.
    for (std::size_t i = 0; i < jobs.size(); ++i)
      EXPECT_TRUE(outcomes[i].broken.empty())
          << "seed " << seed << ": allocation " << jobs[i].shortage.first << " of "
          << whole.allocations << " of at least " << least << " bytes fails, and the process "
          << outcomes[i].broken;
  }
};

TEST_P(AllocationFailures, OfOneAllocationEndNoProcess) { fail_at(0, false); }

TEST_P(AllocationFailures, OfAllLargeAllocationsEndNoProcess) { fail_at(kLarge, true); }

INSTANTIATE_TEST_SUITE_P(
    EveryCall, AllocationFailures,
    testing::Combine(testing::Values("shm", "tcp"),
                     testing::Values("slots", "messages", "rendezvous", "signals", "collectives",
                                     "dense_bsp", "dense_async", "sparse")),
    [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

}  // namespace
}  // namespace weft::tests
