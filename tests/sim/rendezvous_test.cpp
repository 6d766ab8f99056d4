// The rendezvous' protocol under everything that a fabric may do, in simulated time: puts that
// overtake each other and are torn, full queues, pauses, ranks that die.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "p2p/transport/sim/random.hpp"
#include "tests/pattern.hpp"
#include "tests/sim/fresh_seeds.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

using p2p::sim::Random;

constexpr std::uint64_t kSteps = 12;

std::uint64_t draw(std::uint64_t seed, int from, int to, int key, std::uint64_t step) {
  return mix(seed ^ pattern_of(100 * from + to, key, step));
}

Shape shape_of(std::uint64_t seed, int key, std::uint64_t step) {
  const std::uint64_t drawn = mix(seed ^ pattern_of(0, key, step / 5));
  return {static_cast<std::int64_t>(drawn % 4), static_cast<std::int64_t>(1 + drawn / 4 % 900)};
}

std::string key_name(int key) { return "key" + std::to_string(key); }

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

/// With losses, an exchange may end only with the error of a rank that is gone.
bool is_loss(const Status& status) {
  return status.code() == Code::peer_failed || status.code() == Code::peer_left ||
         status.code() == Code::path_failed || status.code() == Code::closed;
}

void exchange(World& world, std::uint64_t seed, bool losses) {
  Random random(mix(seed ^ static_cast<std::uint64_t>(world.rank())));
  const auto fine = [&](const Status& status, const std::string& what) {
    if (status.ok()) return true;
    expect(losses && is_loss(status), what + ": " + status.text());
    return false;
  };
  RendezvousSpec spec;
  spec.batch_requests = seed % 3 != 0;
  spec.cache_metadata = seed % 5 != 0;
  spec.index_keys = seed % 7 != 0;
  Rendezvous rendezvous;
  try {
    rendezvous = Rendezvous::open(world, spec);
  } catch (const Error& error) {
    fine(error.status(), "open");
    return;
  }
  const int keys = 1 + static_cast<int>(seed % 4);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (int to = 0; to < world.size(); ++to)
      for (int key = 0; key < keys; ++key) {
        const std::uint64_t drawn = draw(seed, world.rank(), to, key, step);
        if (drawn % 8 == 0) {
          fine(rendezvous.send_dead(to, key_name(key), step), "send_dead");
          continue;
        }
        const Tensor tensor = world.allocate(DType::f32, shape_of(seed, key, step));
        fill(tensor, drawn);
        fine(rendezvous.send(to, key_name(key), step, tensor), "send");
      }
    for (int i = 0; i < world.size(); ++i) {
      const int from = (world.rank() + i) % world.size();
      std::vector<std::string> names;
      for (int key = 0; key < keys; ++key) names.push_back(key_name(key));
      std::vector<KeyStep> wanted;
      for (const auto& name : names) wanted.push_back({name, step});
      // At times the wait is too short and is repeated.
      if (random.chance(0.2))
        (void)rendezvous
            .recv(from, wanted[0].key, step,
                  Deadline::after(std::chrono::nanoseconds(random.below(3000))))
            .ok();
      auto got = rendezvous.recv(from, wanted);
      for (int key = 0; key < keys; ++key) {
        const auto& one = got[static_cast<std::size_t>(key)];
        const std::string where =
            "rank " + std::to_string(from) + "'s " + key_name(key) + "#" + std::to_string(step);
        if (!one.ok() && one.code() == Code::bad_argument) continue;  // the short wait has got it
        if (!fine(one.status(), where)) continue;
        const std::uint64_t drawn = draw(seed, from, world.rank(), key, step);
        expect(one->is_dead == (drawn % 8 == 0), where + " is dead, or is not");
        if (one->is_dead) continue;
        expect(one->tensor.shape() == shape_of(seed, key, step), where + " has another shape");
        expect(holds(one->tensor, drawn), "data mismatch in " + where);
      }
    }
  }
  fine(rendezvous.serve(), "serve");
}

SimOptions options_of(std::uint64_t seed, bool losses, Plant plant) {
  Random random(mix(seed ^ 0x72647673U));
  SimOptions options{.seed = seed, .faults = {}, .plant = plant};
  options.faults = drawn_faults(random);
  if (losses) options.faults.kills = 1;
  options.print = std::getenv("WEFT_TEST_TRACE") != nullptr;
  return options;
}

SimOutcome run(std::uint64_t seed, bool losses, Plant plant = Plant::none) {
  SimJob job(static_cast<int>(2 + seed % 3), options_of(seed, losses, plant), simulated_settings());
  return job.run([&](World& world) { exchange(world, seed, losses); });
}

void expect_well(std::uint64_t seed, bool losses) {
  for (const std::string& failure : run(seed, losses).failures) {
    if (losses && failure.find("join") != std::string::npos) continue;
    ADD_FAILURE() << "seed " << seed << ": " << failure << "\nseed " << seed
                  << ": replay with --seed " << seed;
  }
}

void expect_fresh_seeds_well(bool losses) {
  for_fresh_seeds(100, 5'000, [&](std::uint64_t seed) { expect_well(seed, losses); });
}

TEST(SimulatedRendezvous, ExchangesEverythingWhateverTheFabricDoes) {
  expect_fresh_seeds_well(false);
}

TEST(SimulatedRendezvous, EndsWhatNeedsARankThatDies) { expect_fresh_seeds_well(true); }

TEST(SimulatedRendezvous, NoticesATensorThatIsAnnouncedBeforeItIsThere) {
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    for (const std::string& failure : run(seed, false, Plant::torn_put).failures)
      caught += failure.find("data mismatch") != std::string::npos ? 1 : 0;
  EXPECT_GT(caught, 0);
}

}  // namespace
}  // namespace weft::tests
