// The bodies of the conformance suite with one end of their slots on a GPU, or both. Streams run
// each operation as late as its dependencies allow, in an order that a seed draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "tests/conformance/runner.hpp"
#include "tests/conformance/settings.hpp"
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::conformance {
namespace {

using tests::Over;

constexpr std::array kEnds{Ends{.owner = Memory::gpu(), .other = Memory::gpu()},
                           Ends{.owner = Memory::gpu(), .other = Memory::host()},
                           Ends{.owner = Memory::host(), .other = Memory::gpu()}};

bool full() { return std::getenv("WEFT_TEST_FULL") != nullptr; }

/// Sanitizers are slow, and the fabrics have much the same races.
std::vector<Over> fabrics_of_gpus() {
#if defined(__SANITIZE_THREAD__)
  return {Over::shm};
#else
#if defined(__SANITIZE_ADDRESS__)
  if (!full()) return {Over::shm};
#endif
  std::vector<Over> fabrics{Over::shm, Over::tcp};
#if defined(WEFT_TEST_FAKE_NIC)
  fabrics.insert(fabrics.end(), {Over::nics, Over::nics_with_dma_buf, Over::nics_with_peermem});
#endif
#if defined(WEFT_TEST_SIMULATION)
  fabrics.push_back(Over::simulation);
#endif
  return fabrics;
#endif
}

std::string name_of(const Ends& ends) {
  const auto word = [](Memory memory) { return memory.is_gpu() ? "gpu" : "host"; };
  return std::string(word(ends.other)) + "_to_" + word(ends.owner);
}

void run(const Body& body, Over fabric, const Ends& ends, std::uint64_t seed) {
  settings().seed = seed;
  settings().ends = ends;
  settings().large = 1 << 20;
  settings().many = 60;
  // The first failure, recorded while its rank is still there: the other one fails later, because
  // of that.
  std::mutex mutex;
  std::string failed;
  const auto as_rank = [&](World& world) {
    try {
      Runner(world).run(body);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (failed.empty()) failed = error.what();
      throw;
    }
  };
  try {
    tests::run_over(fabric, as_rank, seed);
  } catch (const std::exception& error) {
    ADD_FAILURE() << body.name << ": " << (failed.empty() ? error.what() : failed)
                  << "\nWEFT_TEST_SEED=" << seed << " repeats this run";
  }
  settings().ends = {};
}

stand_in::Options lazy(Over fabric, std::uint64_t seed) {
  stand_in::Options options{.pace = stand_in::Pace::lazy, .seed = seed};
  // In simulated time operations move on when they are asked for.
  options.idle = std::chrono::milliseconds(fabric == Over::simulation ? 0 : 1);
  return tests::moves_by_nic(fabric) ? tests::with_flushes(seed % 2 == 0, options) : options;
}

/// One run of a body.
struct Case {
  Body body;
  Over fabric;
  Ends ends;
};

/// Within a host each body with all ends; elsewhere with one choice of ends for each fabric, so
/// that a body has each of them, or with WEFT_TEST_FULL all.
std::vector<Case> cases() {
  const std::vector<Over> fabrics = fabrics_of_gpus();
  std::vector<Case> all;
  std::size_t number = 0;
  for (const Body& body : bodies_for_gpus()) {
    ++number;
    for (std::size_t i = 0; i < fabrics.size(); ++i)
      for (std::size_t ends = 0; ends < kEnds.size(); ++ends) {
        const bool is_one_of_all = fabrics[i] != Over::shm && !full();
        if (is_one_of_all && (number + i) % kEnds.size() != ends) continue;
        if (fabrics[i] != Over::simulation || !body.needs_threads)
          all.push_back({body, fabrics[i], kEnds[ends]});
      }
  }
  return all;
}

class OnGpus : public tests::OnGpus, public testing::WithParamInterface<Case> {
 protected:
  void run_lazily(const Case& run_of, std::uint64_t seed) {
    if (control() != nullptr) {
      ASSERT_EQ(control()->restart(lazy(run_of.fabric, seed)), std::vector<std::string>{});
    }
    run(run_of.body, run_of.fabric, run_of.ends, seed);
    if (control() == nullptr) return;
    EXPECT_TRUE(late_copies_end()) << "seed " << seed;
    EXPECT_EQ(control()->take_complaints(), std::vector<std::string>{}) << "seed " << seed;
  }
};

TEST_P(OnGpus, Holds) { run_lazily(GetParam(), seed_to_use()); }

std::string test_name(const testing::TestParamInfo<Case>& info) {
  const auto& [body, fabric, ends] = info.param;
  return std::string(body.name) + "_over_" + tests::name_of(fabric) + "_from_" + name_of(ends);
}

INSTANTIATE_TEST_SUITE_P(Bodies, OnGpus, testing::ValuesIn(cases()), test_name);

/// Random puts, gets and publications, with other fabrics, ends and orders of work for each seed.
class OnGpusBySeed : public OnGpus {};

TEST_P(OnGpusBySeed, Holds) {
  const bool chosen = std::getenv("WEFT_TEST_SEED") != nullptr;
  const std::uint64_t seeds = full() ? 500 : 10;
  const std::uint64_t first = seed_to_use();
  Case one = GetParam();
  const auto fabrics = fabrics_of_gpus();
  for (std::uint64_t seed = first; seed < first + (chosen ? 1 : seeds) && !HasFailure(); ++seed) {
    one.fabric = fabrics[seed % fabrics.size()];
    one.ends = kEnds[seed / fabrics.size() % kEnds.size()];
    run_lazily(one, seed);
  }
}

Case random_sequences() { return {random_bodies().front(), Over::shm, kEnds.front()}; }

INSTANTIATE_TEST_SUITE_P(Random, OnGpusBySeed, testing::Values(random_sequences()),
                         [](const auto& info) { return std::string(info.param.body.name); });

}  // namespace

/// How GoogleTest prints a case.
inline void PrintTo(const Case& one, std::ostream* out) { *out << one.body.name; }

}  // namespace weft::conformance
