// Ranks that connect on first use: two ranks that never communicate have no queue pair, and no rank
// waits without end for a rank that it never communicated with.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "p2p/transport/verbs/fake/fake_network.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using p2p::verbs::fake::FakeNetwork;
using p2p::verbs::fake::FaultPlan;
using p2p::verbs::fake::VerbsCall;
using std::chrono::seconds;

Config on_first_use() {
  return settings()
      .with(Setting::fabric, "verbs")
      .with(Setting::mesh_eager, "0")
      .with(Setting::log, "off")
      .with(Setting::init_timeout, "10s");
}

SlotSpec edge(int from, int to) {
  return {.name = "from " + std::to_string(from) + " to " + std::to_string(to),
          .dtype = DType::i64,
          .shape = {100}};
}

void put(World& world, int to) {
  const SlotSpec spec = edge(world.rank(), to);
  RemoteSlot remote = world.attach(to, spec);
  const Tensor tensor = world.allocate(spec.dtype, spec.shape);
  for (auto& x : tensor.as<std::int64_t>()) x = world.rank();
  remote.put(tensor).wait().or_throw();
}

void expect_from(Slot& slot, int from) {
  const Arrival arrival = slot.wait().value();
  EXPECT_EQ(arrival.as<std::int64_t>()[99], from);
}

bool is_idle(const World& world, int peer) {
  const Report report = world.report();
  const auto& path = report.paths.at(static_cast<std::size_t>(peer));
  return contains(path.verdicts.at(0).reason, "connects on first use");
}

class FirstUse : public testing::Test {
 protected:
  void run(int ranks, const std::function<void(World&)>& body) {
    run_ranks(ranks, body, on_first_use(),
              [this](int rank) { return network_.device(rank, faults(rank)); });
    EXPECT_EQ(network_.complaints() + network_.left_behind(), "");
  }
  virtual FaultPlan faults(int) const { return {}; }
  std::uint64_t queue_pairs(int rank) const {
    return network_.counts(rank).of(VerbsCall::create_qp);
  }

  FakeNetwork network_;
};

TEST_F(FirstUse, MakesTheQueuePairsOfNeighboursOnly) {
  constexpr int kRanks = 6;
  Meeting meeting(kRanks);
  run(kRanks, [&](World& world) {
    const int next = (world.rank() + 1) % kRanks;
    const int before = (world.rank() + kRanks - 1) % kRanks;
    EXPECT_EQ(queue_pairs(world.rank()), 1) << "the rank's own";
    EXPECT_TRUE(is_idle(world, next));
    meeting.wait();
    Slot slot = world.expose(edge(before, world.rank()));
    put(world, next);
    expect_from(slot, before);
    meeting.wait();
    for (int peer = 0; peer < kRanks; ++peer)
      EXPECT_EQ(is_idle(world, peer), peer != next && peer != before && peer != world.rank());
    world.leave().or_throw();
  });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(queue_pairs(rank), 3) << "rank " << rank;
}

TEST_F(FirstUse, ByBothEndsAtOnceMakesOneConnection) {
  for (unsigned round = 1; round <= 20; ++round) {
    Meeting meeting(2);
    run(2, [&](World& world) {
      const int other = 1 - world.rank();
      Slot slot = world.expose(edge(other, world.rank()));
      meeting.wait();
      put(world, other);
      expect_from(slot, other);
      world.leave().or_throw();
    });
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(queue_pairs(rank), 2 * round) << "rank " << rank << ", round " << round;
  }
}

TEST_F(FirstUse, NeverHappenedSoLeavingWaitsForNobody) {
  Meeting meeting(3);
  run(3, [&](World& world) {
    if (world.rank() != 1) world.leave(Deadline::after(seconds(5))).or_throw();
    meeting.wait();
  });
}

TEST_F(FirstUse, OfARankThatIsGoneEndsAtOnce) {
  InProcessJob job(2, on_first_use(), [this](int rank) { return network_.device(rank); });
  std::thread first([&] {
    World world = job.join(0);
    world.leave().or_throw();
  });
  World world = job.join(1);
  first.join();
  const auto began = Clock::now();
  const ErrorDetail error = thrown_by([&] { (void)world.attach(0, edge(1, 0)); });
  EXPECT_TRUE(tells(error, Code::peer_failed, {"no process listens there"}));
  EXPECT_LT(Clock::now() - began, seconds(5));
  EXPECT_TRUE(world.leave().ok());
}

TEST_F(FirstUse, OfARankThatWaitsForOthersToLeaveSaysThatItHasLeft) {
  Meeting meeting(3);
  std::atomic<bool> leaving{false};
  std::atomic<bool> told{false};
  run(3, [&](World& world) {
    Slot slot;
    if (world.rank() == 1) slot = world.expose(edge(0, 1));
    meeting.wait();
    if (world.rank() == 0) {
      put(world, 1);
      leaving = true;
      world.leave().or_throw();  // not before rank 1 has left
      EXPECT_TRUE(told.load());
    } else if (world.rank() == 1) {
      expect_from(slot, 0);
      EXPECT_TRUE(soon([&] { return told.load(); }));
      world.leave().or_throw();
    } else {
      EXPECT_TRUE(soon([&] { return leaving.load(); }));
      const ErrorDetail error = thrown_by([&] { (void)world.attach(0, edge(2, 0)); });
      EXPECT_EQ(error.code, Code::peer_left) << error.text();
      told = true;
      world.leave().or_throw();
    }
  });
}

TEST_F(FirstUse, OfARankThatThisOneDeclaredDeadFails) {
  Meeting meeting(2);
  run(2, [&](World& world) {
    if (world.rank() == 0) {
      world.declare_dead(1, "a test");
      const ErrorDetail error = thrown_by([&] { (void)world.attach(1, edge(0, 1)); });
      EXPECT_EQ(error.code, Code::peer_failed) << error.text();
      EXPECT_TRUE(world.leave().ok());
    }
    meeting.wait();
  });
}

/// Rank 1's NIC has one queue pair, for rank 1 itself, and none for another rank.
class ShortOfQueuePairs : public FirstUse {
 protected:
  FaultPlan faults(int rank) const override {
    FaultPlan plan;
    if (rank == 1) plan.refusals.push_back({VerbsCall::create_qp, 2, ENOMEM});
    return plan;
  }
};

TEST_F(ShortOfQueuePairs, LoseThatRankAtBothEnds) {
  Meeting meeting(3);
  run(3, [&](World& world) {
    const int other = 1 - world.rank();
    meeting.wait();  // losing a rank during another's join fails that join
    if (world.rank() < 2) {
      const ErrorDetail error =
          thrown_by([&] { (void)world.attach(other, edge(world.rank(), other)); });
      EXPECT_TRUE(tells(error, Code::path_failed, {"ibv_create_qp"}));
      EXPECT_EQ(contains(error.text(), "has given the path up"), world.rank() == 0) << error.text();
    }
    meeting.wait();
    // The other ranks can still be reached.
    if (world.rank() == 2) {
      Slot slot = world.expose(edge(0, 2));
      expect_from(slot, 0);
      meeting.wait();
    } else {
      if (world.rank() == 0) put(world, 2);
      meeting.wait();
    }
    (void)world.leave(Deadline::after(seconds(5)));
  });
}

}  // namespace
}  // namespace weft::tests
