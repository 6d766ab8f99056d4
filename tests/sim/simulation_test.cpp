// The simulation itself: its repeatability and its limits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tests/pattern.hpp"
#include "tests/sim/simulated_job.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Every rank puts to the next and waits for the one before.
void ring(World& world, int rounds, std::int64_t elements) {
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  const SlotSpec spec{.name = "ring", .dtype = DType::u8, .shape = {elements}, .depth = 2};
  Slot slot = world.expose(spec);
  RemoteSlot remote = world.attach(next, spec);
  for (int round = 1; round <= rounds; ++round) {
    const Tensor tensor = world.allocate(spec.dtype, spec.shape);
    fill(tensor, pattern_of(world.rank(), 0, static_cast<std::uint64_t>(round)));
    remote.put(tensor).wait().or_throw();
    const Arrival arrival = slot.wait().value();
    if (!holds(arrival.tensor(), pattern_of(before, 0, static_cast<std::uint64_t>(round))))
      throw std::runtime_error("another tensor came");
  }
}

Faults some_of_everything() {
  return {.delayed = 0.1,
          .reordered = 0.2,
          .torn = 0.5,
          .duplicated = 0.1,
          .full_queue = 0.05,
          .woken = 0.05,
          .paused = 0.01};
}

SimOutcome ring_outcome(int ranks, std::uint64_t seed, Faults faults = some_of_everything()) {
  SimJob job(ranks, {.seed = seed, .faults = faults}, simulated_settings());
  return job.run([](World& world) { ring(world, 10, 1000); });
}

TEST(Simulation, RepeatsARunFromItsSeed) {
  std::set<std::uint64_t> traces;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SimOutcome first = ring_outcome(4, seed);
    const SimOutcome again = ring_outcome(4, seed);
    EXPECT_EQ(first.text, "seed " + std::to_string(seed) + ": all is well");
    EXPECT_EQ(first.trace, again.trace) << "seed " << seed;
    EXPECT_EQ(first.events, again.events) << "seed " << seed;
    traces.insert(first.trace);
  }
  EXPECT_EQ(traces.size(), 20U) << "different seeds lead to different runs";
}

TEST(Simulation, RunsARingOfManyRanksOnOneThread) {
  const int ranks = std::getenv("WEFT_TEST_FULL") != nullptr ? 1000 : 256;
  const SimOutcome outcome = ring_outcome(ranks, 1, {});
  EXPECT_EQ(outcome.text, "seed 1: all is well");
}

/// With more than two buffers not every release is reported; a writer that is held up asks once.
TEST(HeldUpWriter, GetsTheCreditThatItAskedForBeforeThereWasOne) {
  const SlotSpec spec{.name = "put", .dtype = DType::u8, .shape = {100}, .depth = 4};
  SimJob job(2, {.seed = 1}, simulated_settings());
  const SimOutcome outcome = job.run([&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec);
      {
        const Arrival first = slot.wait().value();
        job.sleep(world, seconds(1));  // meanwhile the writer asks
      }
      job.sleep(world, seconds(5));
    } else {
      RemoteSlot remote = world.attach(0, spec);
      const Tensor tensor = world.allocate(spec.dtype, spec.shape);
      for (int n = 1; n <= 5; ++n) remote.put(tensor).wait(Deadline::after(seconds(4))).or_throw();
    }
  });
  EXPECT_EQ(outcome.text, "seed 1: all is well");
}

}  // namespace
}  // namespace weft::tests
