// One rank scribbles over every word that it shares with others, and sends them nonsense. The
// others go on, or end in time with a typed error. No rank crashes, hangs or reads unmapped memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/threads/hostile/job.hpp"

namespace weft::tests {
namespace {

using std::chrono::steady_clock;

bool is_full() { return std::getenv("WEFT_TEST_FULL") != nullptr; }

std::chrono::milliseconds cut() {
  return is_full() ? std::chrono::seconds(60) : std::chrono::seconds(4);
}

/// The usual run starts with the same seed each time; the full run starts with a random one.
unsigned first_seed() {
  if (const char* const told = std::getenv("WEFT_TEST_SEED"))
    return static_cast<unsigned>(std::stoul(told));
  return is_full() ? std::random_device()() : 1;
}

class HostilePeer : public testing::TestWithParam<const char*> {};

TEST_P(HostilePeer, HarmsNobodyButItself) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what a hostile rank writes while others read it is a race by its nature";
#endif
  const bool is_told = std::getenv("WEFT_TEST_SEED") != nullptr;
  unsigned seed = first_seed();
  const auto end = steady_clock::now() + cut();
  int jobs = 0;
  int errors = 0;
  double longest = 0;
  do {
    const Outcome outcome = run({.workload = GetParam(), .seed = seed});
    for (const std::string& broken : outcome.broken)
      ADD_FAILURE() << broken << "; replay with --seed " << seed;
    ++jobs;
    errors += outcome.errors;
    longest = std::max(longest, outcome.seconds);
    ++seed;
  } while (!is_told && steady_clock::now() < end && !HasFailure());
  RecordProperty("jobs", jobs);
  std::printf("%s: %d jobs, %d ranks met errors, the longest took %.1f s\n", GetParam(), jobs,
              errors, longest);
}

INSTANTIATE_TEST_SUITE_P(All, HostilePeer,
                         testing::Values("slots", "messages", "rendezvous", "signals",
                                         "collectives", "dense_bsp", "dense_async", "sparse"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::tests
