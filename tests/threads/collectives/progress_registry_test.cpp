// Plans and messages make progress while their rank waits for something else.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <random>

#include "p2p/progress/progress_registry.hpp"
#include "tests/seeds.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"
#include "tests/threads/verbs/allocation_count.hpp"
#include "weft/message.hpp"

namespace weft::tests {
namespace {

TEST(ProgressRegistry, MovesWithoutMemory) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    std::deque<Collectives> groups;
    std::deque<Plan> plans;
    for (const std::int64_t count : {5, 100'000}) {
      groups.push_back(Collectives::open(world));
      plans.push_back(
          groups.back().plan(all_reduce(world.allocate(DType::f32, {count}), Reduction::max)));
    }
    const auto round = [&] {
      for (Plan& plan : plans) ASSERT_TRUE(plan.start().ok());
      for (const int i : {world.rank(), 1 - world.rank()})
        ASSERT_TRUE(plans[static_cast<std::size_t>(i)].wait().ok());
    };
    round();
    meeting.wait();
    const std::uint64_t allocated = allocations();
    meeting.wait();
    for (int i = 0; i < 20; ++i) round();
    EXPECT_EQ(allocations(), allocated);
    meeting.wait();
  });
}

/// A rank announces its leave first, and a peer that has heard the announcement takes its own
/// memory back: operations must not go on during leave().
TEST(ProgressRegistry, IsNotMovedWhileItsRankLeaves) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    std::atomic<int> combined{0};
    const ReduceFunction larger = [&](std::byte* into, const std::byte* from, std::int64_t count,
                                      DType) {
      ++combined;
      for (std::int64_t i = 0; i < count; ++i) {
        std::int32_t& value = reinterpret_cast<std::int32_t*>(into)[i];
        value = std::max(value, reinterpret_cast<const std::int32_t*>(from)[i]);
      }
    };
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(DType::i32, {100'000});
    Plan plan = group.plan(all_reduce(tensor, ReduceOp(larger)));
    ASSERT_TRUE(world.rank() == 1 || plan.start().ok());
    meeting.wait();
    ASSERT_TRUE(world.rank() == 0 || plan.start().ok());
    meeting.wait();  // rank 0 could go on, with what both have said
    if (world.rank() == 1) return meeting.wait();
    const int before = combined;
    (void)world.leave(Deadline::after(std::chrono::milliseconds(200)));
    EXPECT_EQ(combined, before);
    meeting.wait();
  });
}

TEST(ProgressRegistry, CallsOfMoreGroupsThanHavePlacesAreRefused) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    std::deque<Collectives> groups;
    std::deque<Plan> plans;
    for (int i = 0; i < p2p::ProgressRegistry::kPlaces; ++i) {
      groups.push_back(Collectives::open(world));
      plans.push_back(groups.back().plan(barrier()));
    }
    if (world.rank() == 0) {
      for (int i = 0; i + 1 < p2p::ProgressRegistry::kPlaces; ++i)
        ASSERT_TRUE(plans[static_cast<std::size_t>(i)].start().ok()) << i;
      const Status refused = plans.back().start();
      EXPECT_EQ(refused.code(), Code::exhausted);
      EXPECT_NE(refused.text().find("calls of 63 groups are under way already"), std::string::npos)
          << refused.text();
    }
    meeting.wait();
    // The plan that was refused needs no place when run() runs it.
    ASSERT_TRUE(plans.back().run().ok());
    for (std::size_t i = 0; i + 1 < plans.size(); ++i)
      ASSERT_TRUE((world.rank() == 0 ? plans[i].wait() : plans[i].run()).ok()) << i;
    meeting.wait();
  });
}

class RandomOrders : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, RandomOrders, testing::Values("auto", "tcp"));

/// Every rank waits for its groups and messages in its own random order.
TEST_P(RandomOrders, OfWaitsEnd) {
  const char* given = std::getenv("WEFT_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::cout << "WEFT_TEST_SEED=" << seed << " repeats this run\n";
  run_on(4, settings().with(Setting::fabric, GetParam()), [&](World& world) {
    const std::vector<std::vector<int>> lists{{0, 1, 2, 3}, {3, 1}, {2, 0, 3}, {1, 0, 2, 3}};
    Messages messages(world);
    std::vector<Collectives> groups;
    for (const auto& list : lists)
      groups.push_back(std::find(list.begin(), list.end(), world.rank()) == list.end()
                           ? Collectives()
                           : Collectives::open(world, list));
    std::mt19937 random(seed);  // the same on every rank
    std::mt19937 own(seed + 1 + static_cast<unsigned>(world.rank()));
    const int next = (world.rank() + 1) % world.size();
    const int before = (world.rank() + world.size() - 1) % world.size();
    for (std::uint64_t step = 0; step < seeds(100); ++step) {
      std::deque<Plan> plans;
      std::deque<MessageRequest> requests;
      std::vector<std::function<void()>> waits;
      for (Collectives& group : groups) {
        const std::int64_t count = random() % 2 == 0 ? random() % 40'000 : random() % 50;
        if (group.size() == 0) continue;
        const Tensor tensor = world.allocate(DType::i32, {count});
        write(tensor, pattern(group.rank(), count));
        plans.push_back(group.start(all_reduce(tensor, Reduction::sum)));
        waits.emplace_back([&, tensor, count, &plan = plans.back()] {
          while (own() % 4 == 0 && !plan.test()) {
          }
          ASSERT_TRUE(plan.wait().ok()) << "step " << step;
          ASSERT_EQ(read(tensor), combined(Reduction::sum, DType::i32, group.size(), count));
        });
      }
      const std::int64_t count = random() % 2 == 0 ? random() % 30'000 : random() % 30;
      const Tensor out = world.allocate(DType::i32, {count});
      const Tensor in = world.allocate(DType::i32, {count});
      write(out, pattern(world.rank(), count));
      requests.push_back(messages.irecv(before, Tag(7), in));
      requests.push_back(messages.isend(next, 7, out));
      for (MessageRequest& request : requests)
        waits.emplace_back([&] { ASSERT_TRUE(request.wait().ok()) << "step " << step; });
      std::shuffle(waits.begin(), waits.end(), own);
      for (const auto& wait : waits) wait();
      ASSERT_EQ(read(in), pattern(before, count));
    }
  });
}

}  // namespace
}  // namespace weft::tests
