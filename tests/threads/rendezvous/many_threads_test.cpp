// Several threads of a rank send and receive at once, whatever they exchange and in whatever order.
#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/threads/rendezvous/exchanges.hpp"

namespace weft::tests {
namespace {

/// What rank `from` sends to rank `to` under a key and step, drawn from the job's seed.
struct Planned {
  int from = 0;
  int to = 0;
  std::string key;
  std::uint64_t step = 0;

  std::uint64_t draw(std::uint32_t seed) const {
    return mix(seed ^ mix(pattern_of(from, to, step) ^ std::hash<std::string>{}(key)));
  }
  bool is_dead(std::uint32_t seed) const { return draw(seed) % 16 == 0; }
  bool is_error(std::uint32_t seed) const { return draw(seed) % 16 == 1; }
  /// A key's shape changes now and then.
  Shape shape(std::uint32_t seed) const {
    const std::uint64_t epoch = mix(seed ^ mix(step / 7) ^ std::hash<std::string>{}(key));
    return {static_cast<std::int64_t>(epoch % 5), static_cast<std::int64_t>(1 + epoch / 5 % 3000)};
  }
};

void check(const Planned& planned, const Result<Received>& got, std::uint32_t seed) {
  const auto where = planned.key + "#" + std::to_string(planned.step);
  if (planned.is_error(seed)) {
    EXPECT_EQ(got.code(), Code::flow_overrun) << where;
    return;
  }
  ASSERT_TRUE(got.ok()) << where << ": " << got.status().text();
  EXPECT_EQ(got->is_dead, planned.is_dead(seed)) << where;
  if (got->is_dead) return;
  EXPECT_EQ(got->tensor.shape(), planned.shape(seed)) << where;
  EXPECT_TRUE(holds(got->tensor, planned.draw(seed))) << where;
}

Status send(World& world, Rendezvous& rendezvous, const Planned& planned, std::uint32_t seed) {
  if (planned.is_error(seed))
    return rendezvous.send_error(planned.to, planned.key, planned.step, Code::flow_overrun, "no");
  if (planned.is_dead(seed)) return rendezvous.send_dead(planned.to, planned.key, planned.step);
  const Tensor tensor = world.allocate(DType::f32, planned.shape(seed));
  fill(tensor, planned.draw(seed));
  return rendezvous.send(planned.to, planned.key, planned.step, tensor);
}

void exchange_at_random(int ranks, int threads, std::uint64_t steps, RendezvousSpec spec) {
  const std::uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  run_ranks(
      ranks,
      [&](World& world) {
        auto rendezvous = Rendezvous::open(world, spec);
        const auto sends = [&](int thread) {
          std::mt19937 random(seed + static_cast<std::uint32_t>(100 * world.rank() + thread));
          std::vector<Planned> plan;
          for (int to = 0; to < ranks; ++to)
            for (std::uint64_t step = 0; step < steps; ++step)
              plan.push_back({world.rank(), to, "key" + std::to_string(thread), step});
          // Nearly in order: the parked tensors are bounded, and so must the disorder be.
          std::stable_sort(plan.begin(), plan.end(),
                           [](const auto& a, const auto& b) { return a.step < b.step; });
          for (std::size_t i = 0; i + 8 <= plan.size(); i += 8)
            std::shuffle(plan.begin() + static_cast<std::ptrdiff_t>(i),
                         plan.begin() + static_cast<std::ptrdiff_t>(i + 8), random);
          for (const auto& planned : plan) {
            const Status status = send(world, rendezvous, planned, seed);
            EXPECT_TRUE(status.ok()) << status.text();
            if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
          }
        };
        const auto receives = [&](int thread) {
          std::mt19937 random(seed + static_cast<std::uint32_t>(100 * world.rank() + 50 + thread));
          const std::string key = "key" + std::to_string(thread);
          std::uint64_t step = 0;
          while (step < steps) {
            const std::uint64_t count = std::min<std::uint64_t>(1 + random() % 6, steps - step);
            const int first = static_cast<int>(random() % static_cast<unsigned>(ranks));
            for (int i = 0; i < ranks; ++i) {
              const int from = (first + i) % ranks;
              std::vector<KeyStep> wanted;
              for (std::uint64_t s = step; s < step + count; ++s) wanted.push_back({key, s});
              std::shuffle(wanted.begin(), wanted.end(), random);
              auto got = rendezvous.recv(from, wanted);
              for (std::size_t w = 0; w < wanted.size(); ++w)
                check({from, world.rank(), key, wanted[w].step}, got[w], seed);
            }
            step += count;
          }
        };
        std::vector<std::thread> running;
        for (int thread = 0; thread < threads; ++thread) {
          running.emplace_back(sends, thread);
          running.emplace_back(receives, thread);
        }
        for (auto& thread : running) thread.join();
        EXPECT_TRUE(rendezvous.serve().ok());
        EXPECT_TRUE(world.leave().ok());
      },
      settings());
}

TEST(RendezvousManyThreads, ExchangeAtRandom) { exchange_at_random(3, 2, 60, {}); }

TEST(RendezvousManyThreads, ExchangeAtRandomWithLittleRoom) {
  RendezvousSpec spec;
  spec.max_parked = 40;
  spec.max_parked_bytes = 200'000;
  exchange_at_random(2, 3, 60, spec);
}

TEST(RendezvousManyThreads, ExchangeAtRandomInThePlainForm) {
  RendezvousSpec spec;
  spec.cache_metadata = false;
  spec.index_keys = false;
  spec.batch_requests = false;
  exchange_at_random(2, 2, 60, spec);
}

}  // namespace
}  // namespace weft::tests
