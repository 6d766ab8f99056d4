// Groups whose opening has failed on a rank, and the next ones of the same ranks.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/collective_messages.hpp"
#include "runtime/collective/group_id.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kShort{100};

struct Case {
  const char* fabric;
  int ranks;
};

/// 12 ranks are more than those that all hear from each other.
class Opening : public testing::TestWithParam<Case> {
 protected:
  void run(const std::function<void(World&)>& body) {
    run_on(GetParam().ranks, settings().with(Setting::fabric, GetParam().fabric), body);
  }
};

Status sum(World& world, Collectives& group) {
  const Tensor tensor = world.allocate(DType::i32, {1});
  tensor.as<std::int32_t>()[0] = 1;
  const Status status = group.run(all_reduce(tensor, Reduction::sum));
  EXPECT_TRUE(!status.ok() || tensor.as<std::int32_t>()[0] == world.size());
  return status;
}

Status sum_on_all(World& world) {
  Collectives group = Collectives::open(world);
  return sum(world, group);
}

/// A rank may open a group just before it hears that another has given it up. Its first call then
/// fails at once.
void sum_after_failures(World& world) {
  const auto start = Clock::now();
  Status status = sum_on_all(world);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), Code::closed) << status.text();
    EXPECT_LT(Clock::now() - start, seconds(10));
    status = sum_on_all(world);
  }
  ASSERT_TRUE(status.ok()) << status.text();
  status = sum_on_all(world);
  ASSERT_TRUE(status.ok()) << status.text();
}

TEST_P(Opening, OfARankThatComesLateIsOfTheGroupThatOthersOpenNext) {
  Meeting meeting(GetParam().ranks);
  run([&](World& world) {
    for (int i = 0; i < 2; ++i)  // several are passed over as well
      if (world.rank() != world.size() - 1) {
        const ErrorDetail late =
            thrown_by([&] { (void)Collectives::open(world, Deadline::after(kShort)); });
        EXPECT_EQ(late.code, Code::timeout) << late.message;
      }
    meeting.wait();
    sum_after_failures(world);
  });
}

TEST_P(Opening, GoesOnWithARankThatTriesAgain) {
  Meeting meeting(2);
  run([&](World& world) {
    if (world.rank() == 0) {
      const ErrorDetail late =
          thrown_by([&] { (void)Collectives::open(world, Deadline::after(kShort)); });
      EXPECT_EQ(late.code, Code::timeout);
      EXPECT_TRUE(GetParam().ranks > 9 || late.peer == world.size() - 1) << late.message;
    }
    if (world.rank() == 0 || world.rank() == world.size() - 1) meeting.wait();
    sum_after_failures(world);
  });
}

std::uint64_t messages_of(const World& world) {
  std::uint64_t messages = 0;
  for (const PathReport& path : world.report().paths) messages += path.counters.control_messages;
  return messages;
}

TEST(OpeningOfALargeGroup, TakesTwoMessagesForEachRankOfAHost) {
  constexpr int kRanks = 16;
  std::atomic<std::uint64_t> all{0};
  Meeting meeting(kRanks);
  run_on(kRanks, settings().with(Setting::fabric, "shm"), [&](World& world) {
    const Collectives first = Collectives::open(world);  // what the ranks map is known from now on
    meeting.wait();
    const std::uint64_t before = messages_of(world);
    meeting.wait();
    Collectives group = Collectives::open(world);
    meeting.wait();
    const std::uint64_t sent = messages_of(world) - before;
    all += sent;
    EXPECT_TRUE(world.rank() == 0 || sent <= 2) << "rank " << world.rank() << ": " << sent;
    meeting.wait();
    EXPECT_TRUE(sum(world, group).ok());
    meeting.wait();
  });
  EXPECT_LE(all.load(), 2U * kRanks);
}

/// The areas of 40 groups fill the first chunk of each rank, and go on in another, which each
/// rank learns of from its owner while the first rank tells where the areas lie.
TEST(OpeningOfALargeGroup, FindsAreasInChunksThatAreNew) {
  constexpr int kGroups = 40;
  run_on(12, settings().with(Setting::fabric, "shm"), [&](World& world) {
    const std::uint64_t before = messages_of(world);
    std::vector<Collectives> groups;
    for (int i = 0; i < kGroups; ++i) groups.push_back(Collectives::open(world));
    EXPECT_GT(messages_of(world) - before, std::uint64_t{kGroups} + 10) << "no new chunk";
    for (Collectives& group : groups) EXPECT_TRUE(sum(world, group).ok());
  });
}

TEST(OpeningOfALargeGroup, NamesTheRankThatDoesNotCome) {
  constexpr int kRanks = 12;
  for (const int missing : {0, kRanks - 1}) {
    Meeting meeting(kRanks);
    run_on(kRanks, settings().with(Setting::fabric, "shm"), [&](World& world) {
      if (world.rank() != missing) {
        const ErrorDetail late =
            thrown_by([&] { (void)Collectives::open(world, Deadline::after(milliseconds(400))); });
        EXPECT_EQ(late.code, Code::timeout) << late.message;
        EXPECT_EQ(late.peer, missing) << late.message;
      }
      meeting.wait();
      sum_after_failures(world);
    });
  }
}

TEST(OpeningOfALargeGroup, EndsWhenARankDiesMeanwhile) {
  constexpr int kRanks = 12;
  for (const int dead : {0, 7}) {
    Meeting meeting(kRanks);
    run_on(kRanks, settings().with(Setting::fabric, "shm"), [&](World& world) {
      if (world.rank() == dead) return meeting.wait();
      if (world.rank() == (dead + 1) % kRanks) world.declare_dead(dead, "for the test");
      const ErrorDetail lost =
          thrown_by([&] { (void)Collectives::open(world, Deadline::after(seconds(5))); });
      EXPECT_TRUE(lost.code == Code::peer_failed || lost.code == Code::timeout) << lost.message;
      EXPECT_EQ(lost.peer, dead) << lost.message;
      meeting.wait();
    });
  }
}

/// Tells all others so of the first group of all ranks, though this rank does not open it.
void say_that_it_opens(World& world, detail::CollectiveMessage open) {
  detail::WorldState& state = WorldAccess::state(world);
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  open.list = detail::list_id(ranks);
  open.group = detail::group_id(open.list, 0);
  state.local.progress.run([&] {
    for (const int rank : ranks)
      if (rank != world.rank()) state.mesh.send(state.mesh.peer(rank), open);
  });
}

TEST(OpeningOfAGroup, EndsAtItsDeadlineAndNamesTheRankWhoseMemoryIsNotKnown) {
  for (const bool leaves : {false, true}) {
    SCOPED_TRACE(leaves ? "it leaves" : "it stays");
    Meeting meeting(2);
    run_on(2, settings().with(Setting::fabric, "shm"), [&](World& world) {
      if (world.rank() == 1) say_that_it_opens(world, {.area = {0xfff0, 0, 64}});
      if (world.rank() == 1 && leaves) return;
      if (world.rank() == 1) return meeting.wait();
      const Deadline until = Deadline::after(leaves ? milliseconds(seconds(60)) : kShort);
      const ErrorDetail late = thrown_by([&] { (void)Collectives::open(world, until); });
      EXPECT_EQ(late.code, leaves ? Code::peer_left : Code::timeout) << late.text();
      EXPECT_EQ(late.peer, 1) << late.text();
      EXPECT_EQ(late.operation, "open");
      EXPECT_TRUE(contains(late.text(), "rank 1")) << late.text();
      if (!leaves) meeting.wait();
    });
  }
}

/// A rank that others call missing may be one that does not exist.
TEST(OpeningOfALargeGroup, EndsAtItsDeadlineWhoeverIsSaidToBeMissing) {
  constexpr int kRanks = 12;
  for (const auto& [fabric, step] : {std::pair{"shm", detail::CollectiveMessage::kAbsent},
                                     {"tcp", detail::CollectiveMessage::kWaits}})
    for (const int missing : {kRanks, 1 << 30, -2}) {
      SCOPED_TRACE(fabric + std::to_string(missing));
      Meeting meeting(kRanks);
      run_on(kRanks, settings().with(Setting::fabric, fabric), [&](World& world) {
        if (world.rank() == 0) say_that_it_opens(world, {.step = step, .missing = missing});
        if (world.rank() == 1) {
          const ErrorDetail late =
              thrown_by([&] { (void)Collectives::open(world, Deadline::after(kShort)); });
          EXPECT_EQ(late.code, Code::timeout) << late.text();
          EXPECT_LT(late.peer, kRanks) << late.text();
        }
        meeting.wait();
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Collective, Opening,
                         testing::Values(Case{"shm", 2}, Case{"shm", 4}, Case{"shm", 12},
                                         Case{"tcp", 3}, Case{"tcp", 12}),
                         [](const auto& info) {
                           return info.param.fabric + std::to_string(info.param.ranks);
                         });

}  // namespace
}  // namespace weft::tests
