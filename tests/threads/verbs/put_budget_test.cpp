// The cost of a put of 8 bytes to both ranks: work requests, doorbells, completions and locks, each
// an upper bound (docs/decisions/058-budget-of-a-put.md).
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/threads/verbs/lock_count.hpp"
#include "tests/threads/verbs/nics.hpp"
#include "tests/threads/verbs/passed_over_nic.hpp"

namespace weft::tests {
namespace {

using UncountedNic = PassedOverNic<PassOverLocks>;

/// Of one rank.
struct Cost {
  double requests = 0;
  double doorbells = 0;
  double signalled = 0;
  double receive_posts = 0;
  double credits = 0;  ///< each a request of its own
  double locks = 0;
  double try_locks = 0;
};

constexpr int kRounds = 640;
constexpr double kSlack = 0.02;  ///< messages of the progress threads, and half-full batches

/// The costs of `act`, kRounds times, to this rank for each time.
template <typename Act>
Cost cost_of(World& world, const FakeNetwork& network, Meeting& meeting, const Act& act) {
  meeting.wait();
  const NicCounts before = network.counts(world.rank());
  const std::uint64_t credits = all_counters(world).credit_writes;
  meeting.wait();
  const std::uint64_t locked = locks();
  const std::uint64_t tried = try_locks();
  for (int n = 0; n < kRounds; ++n) act();
  Cost cost{.locks = static_cast<double>(locks() - locked),
            .try_locks = static_cast<double>(try_locks() - tried)};
  meeting.wait();
  const NicCounts now = network.counts(world.rank());
  const auto more = [](std::uint64_t then, std::uint64_t since) {
    return static_cast<double>(since - then);
  };
  cost.requests = more(before.writes + before.writes_with_immediate + before.sends,
                       now.writes + now.writes_with_immediate + now.sends);
  cost.doorbells = more(before.of(VerbsCall::post_send), now.of(VerbsCall::post_send));
  cost.signalled = more(before.signaled, now.signaled);
  cost.receive_posts = more(before.of(VerbsCall::post_recv), now.of(VerbsCall::post_recv));
  cost.credits = more(credits, all_counters(world).credit_writes);
  meeting.wait();
  for (double* const count : {&cost.requests, &cost.doorbells, &cost.signalled, &cost.receive_posts,
                              &cost.credits, &cost.locks, &cost.try_locks})
    *count /= kRounds;
  return cost;
}

/// Of two ranks, each of which exposes a slot of 64 buffers to the other.
std::vector<Cost> costs(const std::function<void(int rank, Slot&, RemoteSlot&, Tensor&)>& act) {
  const SlotSpec spec{.name = "in", .dtype = DType::i64, .shape = {1}, .depth = 64};
  Meeting meeting(2);
  NicJob job;
  std::vector<Cost> costs(2);
  run_ranks(
      2,
      [&](World& world) {
        Slot slot = world.expose(spec);
        RemoteSlot remote = world.attach(1 - world.rank(), spec);
        Tensor tensor = world.allocate(spec.dtype, spec.shape);
        const auto once = [&] { act(world.rank(), slot, remote, tensor); };
        for (int n = 0; n < 100; ++n) once();
        costs[static_cast<std::size_t>(world.rank())] = cost_of(world, job.network, meeting, once);
      },
      verbs_settings().with(Setting::spin, "1s"),
      [&](int rank) { return std::make_shared<UncountedNic>(job.network.device(rank)); });
  job.expect_clean();
  return costs;
}

void ping(int rank, Slot& slot, RemoteSlot& remote, const Tensor& tensor) {
  if (rank == 1) slot.wait().value().release();
  remote.put(tensor).wait().or_throw();
  if (rank == 0) slot.wait().value().release();
}

TEST(APutOf8Bytes, TakesNoLockWhereItArrives) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "skipped: sanitizers lock mutexes of their own, which would be counted";
#endif
  for (const Cost& cost : costs(ping)) {
    // The queue pair's, in the put, and what goes with the completion of each sixteenth.
    EXPECT_LE(cost.locks, 1.5);
    EXPECT_LE(cost.try_locks, kSlack) << "a poll takes no mutex";
  }
}

TEST(APutOf8Bytes, TakesReportsOfReceivesAlong) {
  for (const Cost& cost : costs(ping)) {
    EXPECT_LE(cost.doorbells, 1 + cost.credits + kSlack);
    EXPECT_LE(cost.requests, 1 + 1.0 / 24 + cost.credits + kSlack);
    EXPECT_LE(cost.signalled, 1.0 / 15 + kSlack);
    EXPECT_LE(cost.receive_posts, 1 + kSlack);
  }
}

TEST(AStreamOf8Bytes, IsReportedAtHalfTheReceives) {
  const auto both = costs([](int rank, Slot& slot, RemoteSlot& remote, const Tensor& tensor) {
    if (rank == 0)
      slot.wait().value().release();
    else
      remote.put(tensor).wait().or_throw();
  });
  EXPECT_LE(both[0].doorbells, 1.0 / 32 + both[0].credits + kSlack);
  EXPECT_LE(both[1].doorbells, 1 + kSlack);
}

}  // namespace
}  // namespace weft::tests
