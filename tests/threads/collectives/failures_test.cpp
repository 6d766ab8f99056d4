// A failure in a group is an error on each of its ranks, never a hang.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"

namespace weft::tests {
namespace {

TEST(CollectiveFailure, DifferentCallsEndOnEveryRankWithBothInTheText) {
  for (const std::int64_t count : {4, 40'000}) {
    run_on(3, [&](World& world) {
      Collectives group = Collectives::open(world);
      const Tensor tensor = world.allocate(DType::f32, {count + (world.rank() == 1 ? 1 : 0)});
      ASSERT_TRUE(group.run(barrier()).ok());
      const Status status = group.run(all_reduce(tensor, Reduction::sum));
      ASSERT_EQ(status.code(), Code::mismatch);
      const std::string text = status.text();
      const std::string right = "all_reduce(f32[" + std::to_string(count) + "], sum) on rank";
      const std::string wrong = "all_reduce(f32[" + std::to_string(count + 1) + "], sum) on rank 1";
      EXPECT_TRUE(contains(text, right) && contains(text, wrong)) << text;
      EXPECT_TRUE(contains(text, "call 2 of the group")) << text;
      EXPECT_EQ(group.run(barrier()).code(), Code::mismatch) << "the group is over";
    });
  }
}

TEST(CollectiveFailure, ARankThatLeavesEndsWhatNeedsIt) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    const Tensor tensor = world.allocate(DType::f32, {50'000});
    {
      Collectives group = Collectives::open(world);
      ASSERT_TRUE(group.run(all_reduce(tensor, Reduction::sum)).ok());
      if (world.rank() != 2) {
        const Status lost = group.run(all_reduce(tensor, Reduction::sum));
        EXPECT_EQ(lost.code(), Code::peer_left);
        EXPECT_EQ(lost.detail().operation, "all_reduce(f32[50000], sum)") << lost.text();
        const Status later = group.run(barrier());
        EXPECT_EQ(later.code(), Code::peer_left);
        EXPECT_EQ(later.detail().operation, "barrier()") << later.text();
      }
    }
    (void)world.leave();
  });
}

/// Rank 1 has done its part and left before rank 2 begins, and rank 0 knows that rank 1 has left:
/// neither needs rank 1 any more.
TEST(CollectiveFailure, ARankThatLeavesAfterItsPartIsMissedByNobody) {
  constexpr std::int64_t kFew = 1000;
  constexpr std::int64_t kMany = 3'000'000;  // more than the late rank's buffers hold
  const std::vector<std::function<Call(const Tensor&, const Tensor&, const Tensor&)>> calls{
      [](const Tensor& few, const Tensor& out, const Tensor&) {
        Call call = reduce(few, out, Reduction::sum, 0);
        call.algorithm = Algorithm::allgather_then_reduce;
        return call;
      },
      [](const Tensor& few, const Tensor& out, const Tensor&) { return gather(few, out, 0); },
      [](const Tensor&, const Tensor&, const Tensor& many) {
        Call call = broadcast(many, 0);
        call.algorithm = Algorithm::direct;
        return call;
      }};
  for (std::size_t which = 0; which < calls.size(); ++which) {
    Meeting meeting(3);
    std::atomic<World*> root{nullptr};
    run_on(3, settings().with(Setting::fabric, "tcp"), [&](World& world) {
      Collectives group = Collectives::open(world);
      const Tensor few = world.allocate(DType::i32, {kFew});
      const Tensor out =
          world.rank() == 0 ? world.allocate(DType::i32, {which == 1 ? 3 * kFew : kFew}) : Tensor();
      const std::int64_t count = which == 2 ? kMany : kFew;
      const Tensor many = world.allocate(DType::i32, {count});
      write(few, pattern(world.rank(), kFew));
      write(many, pattern(world.rank(), count));
      Plan plan = group.plan(calls[which](few, out, many));
      if (world.rank() == 0) root = &world;
      meeting.wait();
      const std::array<int, 1> gone{1};
      if (world.rank() == 2)
        (void)soon([&] { return !root.load()->alive(gone).ok(); }, std::chrono::seconds(30));
      const Status status = plan.run();
      ASSERT_TRUE(status.ok()) << "call " << which << ": " << status.text();
      const bool sums = world.rank() == 0 && which == 0;
      EXPECT_TRUE(!sums || read(out) == combined(Reduction::sum, DType::i32, 3, kFew));
      EXPECT_TRUE(which != 2 || read(many) == pattern(0, kMany));
      if (world.rank() == 1) (void)world.leave();
    });
  }
}

TEST(CollectiveFailure, ATimeoutNamesTheLateRankAndLeavesThePlanAlive) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(DType::i32, {9000});
    for (auto& value : tensor.as<std::int32_t>()) value = 1;
    Plan plan = group.plan(all_reduce(tensor, Reduction::sum));
    if (world.rank() == 1) {
      meeting.wait();
      ASSERT_TRUE(plan.run().ok());
    } else {
      ASSERT_TRUE(plan.start().ok());
      // The other of the two ranks may be late too, for some time.
      const auto wait = [&] { return plan.wait(Deadline::after(std::chrono::milliseconds(20))); };
      Status late = wait();
      for (int i = 0; i < 100 && late.detail().peer != 1; ++i) late = wait();
      EXPECT_EQ(late.code(), Code::timeout);
      EXPECT_EQ(late.detail().peer, 1) << late.text();
      meeting.wait();
      ASSERT_TRUE(plan.wait().ok());
    }
    EXPECT_EQ(tensor.as<std::int32_t>().back(), 3);
  });
}

/// Rank 1 alone is absent. Ranks that exchange nothing with it name it too, and no rank that has
/// entered. Around the ring its name travels one rank further with each question, 50 ms, 100, 200
/// and so on after the last.
TEST(CollectiveFailure, ATimeoutBetweenHostsNamesTheAbsentRankAndNoOther) {
  constexpr int kRanks = 5;
  for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::ring}) {
    Meeting meeting(kRanks);
    run_on(kRanks, settings().with(Setting::fabric, "tcp"), [&](World& world) {
      Collectives group = Collectives::open(world);
      const Tensor tensor = world.allocate(DType::i32, {1000});
      for (auto& value : tensor.as<std::int32_t>()) value = 1;
      Call call = all_reduce(tensor, Reduction::sum);
      call.algorithm = algorithm;
      Plan plan = group.plan(call);
      if (world.rank() != 1) {
        ASSERT_TRUE(plan.start().ok());
        const Status late = plan.wait(Deadline::after(std::chrono::seconds(3)));
        EXPECT_EQ(late.code(), Code::timeout);
        EXPECT_EQ(late.detail().peer, 1) << late.text();
        EXPECT_TRUE(contains(late.text(), "rank 1 (host ") &&
                    contains(late.text(), ") has not entered it"))
            << late.text();
      }
      meeting.wait();
      ASSERT_TRUE((world.rank() == 1 ? plan.run() : plan.wait()).ok());
      EXPECT_EQ(tensor.as<std::int32_t>().back(), kRanks);
    });
  }
}

/// Rank 1 has begun the call, and makes no further progress on it.
TEST(CollectiveFailure, ATimeoutBetweenHostsBlamesNoRankThatHasEnteredForItsAbsence) {
  constexpr int kRanks = 3;
  Meeting meeting(kRanks);
  run_on(kRanks, settings().with(Setting::fabric, "tcp"), [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(DType::i32, {300'000});
    for (auto& value : tensor.as<std::int32_t>()) value = 1;
    Call call = all_reduce(tensor, Reduction::sum);
    call.algorithm = Algorithm::direct;
    Plan plan = group.plan(call);
    ASSERT_TRUE(plan.start().ok());
    meeting.wait();
    if (world.rank() != 1) {
      const Status late = plan.wait(Deadline::after(std::chrono::milliseconds(300)));
      EXPECT_EQ(late.code(), Code::timeout);
      EXPECT_TRUE(contains(late.text(), "entered it, but")) << late.text();
      EXPECT_FALSE(contains(late.text(), "not entered")) << late.text();
    }
    meeting.wait();
    ASSERT_TRUE(plan.wait().ok());
    EXPECT_EQ(tensor.as<std::int32_t>().back(), kRanks);
  });
}

TEST(CollectiveFailure, APlanThatGoesWhileUnderWayEndsTheGroupForAll) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(DType::i32, {9000});
    if (world.rank() == 0) {
      const Status late = group.run(all_reduce(tensor, Reduction::sum),
                                    Deadline::after(std::chrono::milliseconds(10)));
      EXPECT_EQ(late.code(), Code::timeout);
      meeting.wait();
    } else {
      meeting.wait();
      const Status status = group.run(all_reduce(tensor, Reduction::sum));
      EXPECT_EQ(status.code(), Code::cancelled) << status.text();
      EXPECT_EQ(status.detail().peer, 0);
    }
    EXPECT_EQ(group.run(barrier()).code(), Code::cancelled);
    meeting.wait();
  });
}

TEST(CollectiveFailure, BadArgumentsAreRefusedBeforeAnythingIsCalled) {
  run_ranks(
      2,
      [](World& world) {
        Collectives group = Collectives::open(world);
        const Tensor ten = world.allocate(DType::f32, {10});
        const Tensor nine = world.allocate(DType::f32, {9});
        const Tensor whole = world.allocate(DType::i32, {10});
        const auto refused = [&](const Call& call) {
          return group.run(call).code() == Code::bad_argument &&
                 thrown_by([&] { (void)group.plan(call); }).code == Code::bad_argument;
        };
        EXPECT_TRUE(refused(all_reduce(ten, nine, Reduction::sum)));
        EXPECT_TRUE(refused(all_reduce(ten, whole, Reduction::sum)));
        EXPECT_TRUE(refused(all_reduce(ten, Reduction::bit_xor)));
        EXPECT_TRUE(refused(all_reduce(ten.part(0, {6}), ten.part(3, {6}), Reduction::sum)));
        EXPECT_TRUE(refused(broadcast(ten, 2)));
        EXPECT_TRUE(refused(broadcast(ten, -1)));
        EXPECT_TRUE(refused(all_gather(ten, nine)));
        EXPECT_TRUE(refused(all_gather(ten, ten, {10})));
        EXPECT_TRUE(refused(all_gather(ten, ten, {11, -1})));
        EXPECT_TRUE(refused(all_to_all(nine, nine)));
        EXPECT_TRUE(refused(all_to_all(ten, ten, {5, 5})));
        EXPECT_TRUE(
            refused(all_reduce(world.allocate(DType::f32, {4, 4}).slice(1, 0, 2), Reduction::sum)));
        Call other_algorithm = all_reduce(ten, Reduction::sum);
        other_algorithm.algorithm = static_cast<Algorithm>(99);
        EXPECT_TRUE(refused(other_algorithm));
        EXPECT_TRUE(refused(
            all_reduce(Tensor::wrap(ten.data(), static_cast<DType>(99), {10}), Reduction::sum)));
        for (const Tensor& bare : {Tensor(), Tensor::wrap(nullptr, DType::f32, {10})}) {
          EXPECT_TRUE(refused(broadcast(bare, 0)));
          EXPECT_TRUE(refused(all_reduce(bare, Reduction::sum)));
          EXPECT_TRUE(refused(all_reduce(bare, world.allocate(DType::f32, {0}), Reduction::sum)));
          EXPECT_TRUE(refused(scan(bare, bare, Reduction::sum)));
          EXPECT_TRUE(refused(all_gather(bare, bare)));
          EXPECT_TRUE(refused(all_to_all(bare, bare)));
        }
        EXPECT_EQ(thrown_by([&] {
                    (void)Collectives::open(world, std::array{0, 0});
                  }).code,
                  Code::bad_argument);
        EXPECT_EQ(
            thrown_by([&] { (void)Collectives::open(world, std::array{1 - world.rank()}); }).code,
            Code::bad_argument);
        ASSERT_TRUE(group.run(barrier()).ok());
      },
      settings());
}

TEST(CollectiveFailure, OpeningNamesTheRankThatDoesNot) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    if (world.rank() == 0) {
      const ErrorDetail detail = thrown_by(
          [&] { (void)Collectives::open(world, Deadline::after(std::chrono::milliseconds(20))); });
      EXPECT_EQ(detail.code, Code::timeout);
      EXPECT_EQ(detail.peer, 1);
    }
    meeting.wait();
  });
}

}  // namespace
}  // namespace weft::tests
