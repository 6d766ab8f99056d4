// The slots between ranks on several hosts: made for the calls that need them, no larger than these
// need.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/ranks.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

/// Ends of slots that collectives have made.
std::ptrdiff_t ends(const World& world) {
  return std::ranges::count_if(world.report().edges, [](const EdgeReport& edge) {
    return edge.slot.starts_with("collective ");
  });
}

std::uint64_t bytes_used(const World& world) {
  std::uint64_t bytes = 0;
  for (const ArenaReport& arena : world.report().arenas)
    if (arena.sort == "data") bytes += arena.used_bytes;
  return bytes;
}

Call by(Algorithm algorithm, Call call) {
  call.algorithm = algorithm;
  return call;
}

TEST(CollectiveLinks, AreMadeForTheCallsThatNeedThem) {
  Meeting meeting(4);
  run_on(4, settings().with(Setting::fabric, "tcp"), [&](World& world) {
    Collectives group = Collectives::open(world);
    EXPECT_EQ(ends(world), 0);
    const std::uint64_t before = bytes_used(world);
    const Call doubling = by(Algorithm::doubling, barrier());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(group.run(doubling).ok());
    EXPECT_EQ(ends(world), 4) << "to and from two ranks each";
    EXPECT_LT(bytes_used(world) - before, 128U << 10U);
    meeting.wait();

    const Tensor tensor = world.allocate(DType::i32, {1 << 18});
    std::ranges::fill(tensor.as<std::int32_t>(), 1);
    const std::uint64_t narrow = bytes_used(world);
    const Call direct = by(Algorithm::direct, all_reduce(tensor, Reduction::sum));
    ASSERT_TRUE(group.run(direct).ok());
    EXPECT_EQ(tensor.as<std::int32_t>().back(), 4);
    EXPECT_EQ(ends(world), 4 + 6) << "long pieces go by slots of their own";
    EXPECT_GT(bytes_used(world) - narrow, 3 * (2U << 20U));
    meeting.wait();
    ASSERT_TRUE(group.run(doubling).ok());
    ASSERT_TRUE(group.run(direct).ok());
    EXPECT_EQ(ends(world), 4 + 6) << "they stay";
  });
}

// A writer that heard of its credits three at a time would have two of five pieces under way.
TEST(CollectiveLinks, TellOfReadPiecesWithThePiecesThatTheySend) {
  Meeting meeting(2);
  run_on(2, settings().with(Setting::fabric, "tcp"), [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor in = world.allocate(DType::f32, {1 << 20});
    const Tensor out = world.allocate(DType::f32, {1 << 20});
    std::ranges::fill(in.as<float>(), 1.0F);
    for (int i = 0; i < 8; ++i)
      ASSERT_TRUE(group.run(by(Algorithm::direct, all_reduce(in, out, Reduction::sum))).ok());
    EXPECT_EQ(out.as<float>().back(), 2.0F);
    meeting.wait();
    TransferCounters read;
    for (const EdgeReport& edge : world.report().edges)
      if (edge.slot.starts_with("collective ") && edge.role == Role::receives)
        read += edge.counters;
    EXPECT_GT(read.transfers, 8 * 8U);
    EXPECT_GT(read.credit_writes, read.transfers / 3);
    meeting.wait();
  });
}

TEST(CollectiveLinks, OfARootAreThoseOfItsTree) {
  Meeting meeting(5);
  run_on(5, settings().with(Setting::fabric, "tcp"), [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(DType::i32, {10});
    ASSERT_TRUE(group.run(by(Algorithm::direct, broadcast(tensor, 2))).ok());
    EXPECT_EQ(ends(world), world.rank() == 2 ? 4 : 1);
    meeting.wait();
  });
}

TEST(CollectiveLinks, ShowThatTwoRanksDisagreeAboutAPartOfAnySize) {
  for (const bool gives_more : {false, true})
    run_on(3, settings().with(Setting::fabric, "tcp"), [&](World& world) {
      Collectives group = Collectives::open(world);
      std::vector<std::int64_t> gives(3, 10);
      std::vector<std::int64_t> gets(3, 10);
      if (world.rank() == 0) gives[1] = gives_more ? 50'000 : 3;
      if (world.rank() == 1) gets[0] = gives_more ? 3 : 50'000;
      const auto sum = [](const auto& counts) {
        return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
      };
      const Call call = all_to_all(world.allocate(DType::i32, {sum(gives)}),
                                   world.allocate(DType::i32, {sum(gets)}), gives, gets);
      Status status = group.run(call);
      // The others need nothing of what the two disagree about.
      if (status.ok()) status = group.run(barrier());
      EXPECT_EQ(status.code(), Code::mismatch) << status.text();
      EXPECT_TRUE(contains(status.text(), "elements for rank 1")) << status.text();
    });
}

}  // namespace
}  // namespace weft::tests
