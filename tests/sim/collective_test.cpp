// Collectives by every algorithm, under everything that a fabric may do: puts that come late and in
// pieces, full queues, pauses, ranks that die. A seed decides all of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "p2p/transport/sim/random.hpp"
#include "tests/seeds.hpp"
#include "tests/sim/simulated_job.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using p2p::sim::Random;

constexpr std::array kAlgorithms{
    Algorithm::automatic, Algorithm::direct,   Algorithm::allgather_then_reduce,
    Algorithm::ring,      Algorithm::doubling, Algorithm::halving};

/// The results of the calls of all ranks.
struct Ends {
  int right = 0;
  int lost = 0;
  int served = 0;  ///< calls that an algorithm was named for, and that it can serve
};

/// A call that the seed draws, and its expected result.
class DrawnCall {
 public:
  DrawnCall(World& world, Random& random, int size)
      : kind_(random.below(4)),
        root_(static_cast<int>(random.below(static_cast<std::uint64_t>(size)))) {
    const std::array<std::int64_t, 5> counts{0, 1, size - 1, 700, 45'000};
    count_ = counts[random.below(counts.size())];
    const Algorithm algorithm = kAlgorithms[random.below(kAlgorithms.size())];
    in_ = world.allocate(DType::i32, {count_});
    in_place_ = random.chance(0.5);
    out_ = in_place_ ? in_ : world.allocate(DType::i32, {count_});
    for (std::int64_t i = 0; i < count_; ++i) at(in_, i) = value(world.rank(), i);
    if (kind_ == 0) call = all_reduce(in_, out_, Reduction::sum);
    if (kind_ == 1) call = broadcast(in_, root_);
    if (kind_ == 2)
      call = reduce(in_, world.rank() == root_ ? out_ : Tensor(), Reduction::sum, root_);
    call.algorithm = algorithm;
  }

  bool is_right(int rank, int size) const {
    for (std::int64_t i = 0; i < count_; ++i) {
      std::int32_t sum = 0;
      for (int r = 0; r < size; ++r) sum += value(r, i);
      const bool sums = kind_ == 0 || (kind_ == 2 && rank == root_);
      if (sums && at(out_, i) != sum) return false;
      if (kind_ == 1 && at(in_, i) != value(root_, i)) return false;
    }
    return true;
  }

  /// True if the call can be made again with the same result.
  bool repeats() const { return !in_place_ && call.kind != CollectiveKind::broadcast; }

  Call call = barrier();

 private:
  static std::int32_t value(int rank, std::int64_t i) {
    return static_cast<std::int32_t>(1000 * rank + i % 997);
  }
  static std::int32_t& at(const Tensor& tensor, std::int64_t i) {
    return tensor.as<std::int32_t>()[static_cast<std::size_t>(i)];
  }

  const std::uint64_t kind_;
  const int root_;
  std::int64_t count_ = 0;
  bool in_place_ = false;
  Tensor in_;
  Tensor out_;
};

bool is_loss(Code code) {
  return code == Code::peer_failed || code == Code::peer_left || code == Code::closed;
}

/// Calls until one is lost.
void call_all(World& world, std::uint64_t seed, bool losses, Ends& ends) {
  constexpr int kCalls = 8;
  Collectives group = Collectives::open(world);
  Random random(seed);  // the same on every rank
  for (int i = 0; i < kCalls; ++i) {
    const DrawnCall drawn(world, random, world.size());
    const bool again = random.chance(0.5);
    Plan plan;
    try {
      plan = group.plan(drawn.call);
    } catch (const Error& error) {
      if (error.status().code() != Code::bad_argument) throw;
      continue;  // on all ranks alike
    }
    if (drawn.call.algorithm != Algorithm::automatic) ++ends.served;
    Status status = plan.run();
    if (status.ok() && again && drawn.repeats()) status = plan.run();
    if (!status.ok() && !(losses && is_loss(status.code()))) throw Error(status);
    if (!status.ok()) {
      ++ends.lost;
      return;
    }
    if (!drawn.is_right(world.rank(), world.size())) throw std::runtime_error("a wrong result");
    ++ends.right;
  }
}

Ends play(std::uint64_t seed, int kills) {
  SimOptions options{.seed = seed};
  options.faults = kHarmlessFaults;
  options.faults.kills = kills;
  options.faults.kill_after = 40;
  options.faults.kill_within = 150;
  Ends ends;
  SimJob job(static_cast<int>(2 + seed % 5), options, simulated_settings());
  const SimOutcome outcome = job.run([&](World& world) {
    try {
      call_all(world, seed, kills > 0, ends);
      job.sleep(world, std::chrono::seconds(1));  // who leaves at once fails who still sends to it
    } catch (const Error& error) {
      if (kills == 0 || !is_loss(error.status().code())) throw;  // a group that no rank could open
    }
  });
  EXPECT_TRUE(kills > 0 || outcome.failures.empty()) << outcome.text;
  // A rank that dies may keep others from joining, too.
  for (const std::string& failure : outcome.failures)
    EXPECT_NE(failure.find("join"), std::string::npos) << outcome.text << ": " << failure;
  return ends;
}

Ends play_all(int count, int kills) {
  const char* given = std::getenv("WEFT_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10)
                                               : std::random_device{}() * std::uint64_t{10'000};
  Ends all;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    const Ends ends = play(seed, kills);
    all.right += ends.right;
    all.lost += ends.lost;
    all.served += ends.served;
    if (testing::Test::HasFailure()) {
      std::cout << "WEFT_TEST_SEED=" << seed << " repeats this run\n";
      break;
    }
  }
  return all;
}

TEST(SimulatedCollectives, GiveWhatTheyMustByEveryAlgorithm) {
  constexpr int kSeeds = seeds(80);
  const Ends ends = play_all(kSeeds, 0);
  EXPECT_GT(ends.right, 5 * kSeeds);
  EXPECT_GT(ends.served, 3 * kSeeds);
}

TEST(SimulatedCollectives, EndOnEverySurvivorWhenARankDies) {
  constexpr int kSeeds = seeds(120);
  const Ends ends = play_all(kSeeds, 1);
  EXPECT_GT(ends.right, kSeeds);
  EXPECT_GT(ends.lost, 0) << "of " << ends.right;
}

}  // namespace
}  // namespace weft::tests
