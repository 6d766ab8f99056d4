// Several threads of a rank send and receive at once, in random order.
#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/threads/rendezvous/exchanges.hpp"

namespace weft::tests {
namespace {

/// A tensor that rank `from` sends to rank `to` under a key and step, drawn from the job's seed.
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

std::uint32_t stream(int from, int to, int thread) {
  return static_cast<std::uint32_t>(1000 * from + 100 * to + 10 * thread);
}

/// `disorder`: the number of steps within which a sender shuffles its own; parked tensors must have
/// room for them.
void exchange_at_random(int ranks, int threads, std::uint64_t steps, const RendezvousSpec& spec,
                        std::size_t disorder = 8) {
  const std::uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  run_on(ranks, [&](World& world) {
    auto rendezvous = Rendezvous::open(world, spec);
    // A thread for each stream, so that one that waits for room holds up no other.
    const auto sends = [&](int to, int thread) {
      std::mt19937 random(seed + stream(world.rank(), to, thread));
      std::vector<Planned> plan;
      for (std::uint64_t step = 0; step < steps; ++step)
        plan.push_back({world.rank(), to, "key" + std::to_string(thread), step});
      for (std::size_t i = 0; i + disorder <= plan.size(); i += disorder)
        std::shuffle(plan.begin() + static_cast<std::ptrdiff_t>(i),
                     plan.begin() + static_cast<std::ptrdiff_t>(i + disorder), random);
      for (const auto& planned : plan) {
        const Status status = send(world, rendezvous, planned, seed);
        EXPECT_TRUE(status.ok()) << status.text();
        if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    };
    const auto receives = [&](int from, int thread) {
      std::mt19937 random(seed + stream(from, world.rank(), thread) + 1);
      const std::string key = "key" + std::to_string(thread);
      for (std::uint64_t step = 0; step < steps;) {
        const std::uint64_t count = std::min<std::uint64_t>(1 + random() % 6, steps - step);
        std::vector<KeyStep> wanted;
        for (std::uint64_t s = step; s < step + count; ++s) wanted.push_back({key, s});
        std::shuffle(wanted.begin(), wanted.end(), random);
        auto got = rendezvous.recv(from, wanted);
        for (std::size_t w = 0; w < wanted.size(); ++w)
          check({from, world.rank(), key, wanted[w].step}, got[w], seed);
        step += count;
      }
    };
    std::vector<std::thread> running;
    for (int peer = 0; peer < ranks; ++peer)
      for (int thread = 0; thread < threads; ++thread) {
        running.emplace_back(sends, peer, thread);
        running.emplace_back(receives, peer, thread);
      }
    for (auto& thread : running) thread.join();
    EXPECT_TRUE(rendezvous.serve().ok());
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousManyThreads, ExchangeAtRandom) { exchange_at_random(3, 2, 60, {}); }

TEST(RendezvousManyThreads, ExchangeAtRandomWithLittleRoom) {
  RendezvousSpec spec;
  spec.max_parked = 40;
  spec.max_parked_bytes = 200'000;
  exchange_at_random(2, 3, 60, spec, 1);
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
