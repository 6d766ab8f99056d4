// Plans: repeated runs cost nothing but the transfer, several plans are under way, on several
// groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

#include "p2p/slot/attach/slot_messages.hpp"
#include "tests/seeds.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"
#include "tests/threads/verbs/allocation_count.hpp"
#include "weft/message.hpp"

namespace weft::tests {
namespace {

/// Messages and registrations of all paths, and memory: costs that no steady state has.
std::vector<std::uint64_t> cost(const World& world) {
  TransferCounters sum;
  const Report report = world.report();
  for (const PathReport& path : report.paths) sum += path.counters;
  std::vector<std::uint64_t> costs{sum.control_messages, sum.registrations};
  for (const ArenaReport& arena : report.arenas) costs.push_back(arena.allocations);
  return costs;
}

TEST(Plan, IsRunAgainWithoutMessageRegistrationOrMemory) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor small = world.allocate(DType::f32, {5});
    const Tensor large = world.allocate(DType::f32, {100'000});
    Plan plans[] = {group.plan(all_reduce(small, Reduction::max)),
                    group.plan(all_reduce(large, Reduction::max)), group.plan(broadcast(large, 1)),
                    group.plan(barrier())};
    const auto round = [&] {
      for (Plan& plan : plans) ASSERT_TRUE(plan.run().ok());
    };
    round();
    meeting.wait();
    const auto before = cost(world);
    meeting.wait();
    const std::uint64_t allocated = allocations();
    for (int i = 0; i < 20; ++i) round();
    EXPECT_EQ(allocations(), allocated);
    EXPECT_EQ(cost(world), before);
    EXPECT_EQ(group.bytes_copied(), 0U);
    meeting.wait();
  });
}

TEST(Plan, IsRunAgainBetweenHostsWithoutMessageRegistrationOrMemory) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks are so slow that they ask each other for credits";
#endif
  Meeting meeting(3);
  std::atomic<std::uint64_t> asked{0};
  run_on(3, settings().with(Setting::fabric, "tcp"), [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor small = world.allocate(DType::f32, {5});
    const Tensor large = world.allocate(DType::f32, {300'000});
    const Tensor whole = world.allocate(DType::f32, {900'000});
    Plan plans[] = {group.plan(all_reduce(small, Reduction::max)),
                    group.plan(all_reduce(large, Reduction::max)),
                    group.plan(reduce(large, large, Reduction::max, 2)),
                    group.plan(scan(large, large, Reduction::max)),
                    group.plan(all_to_all(whole, whole)),
                    group.plan(broadcast(large, 1)),
                    group.plan(barrier())};
    const auto round = [&] {
      for (Plan& plan : plans) ASSERT_TRUE(plan.run().ok());
    };
    for (int i = 0; i < 5; ++i) round();
    meeting.wait();
    const auto before = cost(world);
    meeting.wait();
    const std::uint64_t allocated = allocations();
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) round();
    const std::uint64_t allocations_now = allocations();
    auto after = cost(world);
    // A rank that the machine has held up for p2p::kHeldUp asks the others for credits.
    const std::uint64_t asks = after[0] - before[0];
    EXPECT_LE(asks, 2 * ((std::chrono::steady_clock::now() - began) / p2p::kHeldUp));
    after[0] = before[0];
    EXPECT_EQ(after, before);
    asked += asks;
    meeting.wait();
    // The waiting thread handles the other ranks' messages.
    if (asked == 0) {
      EXPECT_EQ(allocations_now, allocated);
    }
    meeting.wait();
  });
}

TEST(Plan, GoesByRoundsHoweverMuchTwoRanksSendEachOther) {
  run_on(2, settings().with(Setting::fabric, "tcp"), [](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(DType::i32, {2'500'000});
    for (const Algorithm algorithm : {Algorithm::doubling, Algorithm::halving, Algorithm::ring}) {
      const auto values = tensor.as<std::int32_t>();
      std::fill(values.begin(), values.end(), 1 + world.rank());
      Call call = all_reduce(tensor, Reduction::sum);
      call.algorithm = algorithm;
      const Status status = group.run(call);
      ASSERT_TRUE(status.ok()) << status.text();
      ASSERT_EQ(std::count(values.begin(), values.end(), 3), tensor.shape()[0]);
    }
    std::fill_n(tensor.as<std::int32_t>().data(), 2'500'000, 1 + world.rank());
    Call call = reduce_scatter(tensor, world.allocate(DType::i32, {1'250'000}), Reduction::sum);
    call.algorithm = Algorithm::ring;
    ASSERT_TRUE(group.run(call).ok());
    ASSERT_EQ(call.out.as<std::int32_t>().back(), 3);
  });
}

TEST(Plan, SeveralAreUnderWayAndEndInTheirOrder) {
  run_on(3, [](World& world) {
    Collectives group = Collectives::open(world, world.group());
    std::vector<Tensor> tensors;
    std::vector<Plan> plans;
    for (int i = 0; i < 4; ++i) {
      tensors.push_back(world.allocate(DType::i64, {i % 2 == 0 ? 3 : 5000}));
      plans.push_back(group.plan(all_reduce(tensors.back(), Reduction::sum)));
    }
    for (int round = 0; round < 50; ++round) {
      for (const Tensor& tensor : tensors)
        for (auto& value : tensor.as<std::int64_t>()) value = world.rank() + round;
      for (Plan& plan : plans) ASSERT_TRUE(plan.start().ok());
      ASSERT_TRUE(plans.back().wait().ok());
      for (Plan& plan : plans) ASSERT_TRUE(plan.test());
      for (const Tensor& tensor : tensors)
        for (const auto value : tensor.as<std::int64_t>()) ASSERT_EQ(value, 3 + 3 * round);
      ASSERT_TRUE(group.run(broadcast(tensors[0], 0)).ok());
    }
  });
}

TEST(Plan, IsRefusedWhileItOrFourOthersAreUnderWay) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Collectives group = Collectives::open(world);
    std::vector<Plan> plans;
    for (int i = 0; i < 5; ++i) plans.push_back(group.plan(barrier()));
    if (world.rank() == 1) meeting.wait();
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(plans[static_cast<std::size_t>(i)].start().ok());
    if (world.rank() == 0) {
      EXPECT_EQ(plans[0].start().code(), Code::bad_argument);
      EXPECT_EQ(plans[4].start().code(), Code::bad_argument);
      EXPECT_FALSE(plans[0].test());
      meeting.wait();
    }
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(plans[static_cast<std::size_t>(i)].wait().ok());
    ASSERT_TRUE(plans[4].run().ok());
  });
}

TEST(Plan, GivesTheSameBitsOnEveryRankAndByEverySizeOfTheCall) {
  std::vector<std::vector<float>> results(5);
  run_on(5, [&](World& world) {
    Collectives group = Collectives::open(world);
    std::mt19937 random(static_cast<unsigned>(world.rank()));
    std::normal_distribution<float> normal(0, 1000);
    const Tensor in = world.allocate(DType::f32, {20'000});
    for (float& value : in.as<float>()) value = normal(random);
    const Tensor out = world.allocate(DType::f32, {20'000});
    ASSERT_TRUE(group.run(all_reduce(in, out, Reduction::sum)).ok());
    // Some of the same elements, few enough to travel in another way.
    const Tensor few = world.allocate(DType::f32, {100});
    for (std::int64_t at = 0; at < 20'000; at += 100) {
      ASSERT_TRUE(group.run(all_reduce(in.part(at, {100}), few, Reduction::sum)).ok());
      ASSERT_EQ(std::memcmp(few.data(), out.part(at, {100}).data(), few.bytes()), 0);
    }
    const auto values = out.as<float>();
    results[static_cast<std::size_t>(world.rank())].assign(values.begin(), values.end());
  });
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Plan, CombinesByAFunctionInTheOrderOfTheRanks) {
  // An element is an affine map, its factor and its summand: composition is associative, not
  // commutative.
  const auto map = [](std::int64_t factor, std::int64_t summand) { return factor << 32 | summand; };
  const ReduceOp chain([&](std::byte* into, const std::byte* from, std::int64_t count, DType) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t a = 0;
      std::int64_t b = 0;
      std::memcpy(&a, into + i * 8, sizeof a);
      std::memcpy(&b, from + i * 8, sizeof b);
      const std::int64_t then =
          map((a >> 32) * (b >> 32), (a & 0xffffffff) * (b >> 32) + (b & 0xffffffff));
      std::memcpy(into + i * 8, &then, sizeof then);
    }
  });
  run_on(3, [&](World& world) {
    Collectives group = Collectives::open(world);
    for (const std::int64_t count : {2, 6000}) {
      const Tensor tensor = world.allocate(DType::i64, {count});
      for (auto& value : tensor.as<std::int64_t>()) value = map(2 + world.rank(), 1 + world.rank());
      ASSERT_TRUE(group.run(all_reduce(tensor, chain)).ok());
      for (const auto value : tensor.as<std::int64_t>())
        ASSERT_EQ(value, map(2 * 3 * 4, (1 * 3 + 2) * 4 + 3));
    }
  });
}

/// A message under way to the next rank of a ring, and one from the previous rank.
class RoundTheRing {
 public:
  RoundTheRing(World& world, Messages& messages, std::span<const int> ring, std::uint64_t tag,
               std::int64_t count)
      : me_(static_cast<int>(std::find(ring.begin(), ring.end(), world.rank()) - ring.begin())),
        before_(
            ring[static_cast<std::size_t>(me_ + static_cast<int>(ring.size()) - 1) % ring.size()]),
        out_(world.allocate(DType::i32, {count})),
        in_(world.allocate(DType::i32, {count})) {
    write(out_, pattern(world.rank(), count));
    came_ = messages.irecv(before_, Tag(tag), in_);
    went_ = messages.isend(ring[static_cast<std::size_t>(me_ + 1) % ring.size()], tag, out_);
  }
  void arrive() {
    ASSERT_TRUE(came_.wait().ok());
    ASSERT_EQ(read(in_), pattern(before_, in_.shape()[0]));
    ASSERT_TRUE(went_.wait().ok());
  }

 private:
  const int me_;
  const int before_;
  const Tensor out_;
  const Tensor in_;
  MessageRequest came_;
  MessageRequest went_;
};

/// A random algorithm that serves the call between hosts, or none.
Algorithm some_algorithm(unsigned kind, unsigned draw) {
  constexpr std::array kReduce{Algorithm::automatic, Algorithm::ring, Algorithm::doubling,
                               Algorithm::allgather_then_reduce};
  constexpr std::array kBroadcast{Algorithm::automatic, Algorithm::ring, Algorithm::doubling,
                                  Algorithm::direct};
  if (kind == 0) return kReduce[draw % kReduce.size()];
  if (kind == 2) return kBroadcast[draw % kBroadcast.size()];
  return kind == 3 && draw % 2 == 0 ? Algorithm::doubling : Algorithm::automatic;
}

class RandomCalls : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, RandomCalls, testing::Values("auto", "tcp"));

TEST_P(RandomCalls, OnSeveralGroupsWithMessagesBetweenGiveWhatTheyMust) {
  const char* given = std::getenv("WEFT_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::cout << "WEFT_TEST_SEED=" << seed << " repeats this run\n";
  constexpr int kRanks = 4;
  run_on(kRanks, settings().with(Setting::fabric, GetParam()), [&](World& world) {
    const std::vector<std::vector<int>> lists{{0, 1, 2, 3}, {3, 1}, {2, 0, 3}, {2, 0, 3}};
    Messages messages(world);
    std::vector<Collectives> groups;
    for (const auto& list : lists)
      groups.push_back(std::find(list.begin(), list.end(), world.rank()) == list.end()
                           ? Collectives()
                           : Collectives::open(world, list));
    std::mt19937 random(seed);  // the same on every rank
    for (std::uint64_t step = 0; step < seeds(150); ++step) {
      const std::size_t which = random() % lists.size();
      const std::int64_t count = random() % 3 == 0 ? random() % 40'000 : random() % 50;
      const unsigned kind = random() % 4;
      const int root = static_cast<int>(random() % lists[which].size());
      const bool many = random() % 2 == 0;
      const auto draw = static_cast<unsigned>(random());
      const std::int64_t message = random() % 2 == 0 ? random() % 30'000 : random() % 30;
      if (groups[which].size() == 0) continue;
      Collectives& group = groups[which];
      const int me = group.rank();
      const Tensor in = world.allocate(DType::i32, {count});
      write(in, pattern(me, count));
      const Tensor out = world.allocate(DType::i32, {count});
      Call call = barrier();
      Values expected = pattern(root, count);
      if (kind == 0) call = all_reduce(in, out, Reduction::sum);
      if (kind <= 1) expected = combined(Reduction::sum, DType::i32, group.size(), count);
      if (kind == 1) call = reduce(in, me == root ? out : Tensor(), Reduction::sum, root);
      if (kind == 2) call = broadcast(in, root);
      call.algorithm = some_algorithm(kind, draw);
      RoundTheRing ring(world, messages, lists[which], step, message);
      Plan plan = group.plan(call);
      for (int again = 0; again < (many && kind < 2 ? 3 : 1); ++again)
        ASSERT_TRUE(plan.run().ok()) << "step " << step;
      const bool gets = kind == 0 || (kind == 1 && me == root);
      const Values got = gets ? read(out) : kind == 2 ? read(in) : expected;
      ASSERT_EQ(got, expected) << "step " << step;
      ring.arrive();
    }
  });
}

}  // namespace
}  // namespace weft::tests
