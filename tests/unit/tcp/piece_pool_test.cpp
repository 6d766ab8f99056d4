// Shares of rails by their speed, and puts that end in their order.
#include "p2p/transport/tcp/piece_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>

#include "p2p/transport/tcp/lanes.hpp"

namespace weft::p2p::tcp {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kPiece = PiecePool::kPiece;

PiecePool::Piece piece_of(std::uint64_t put, std::size_t bytes = kPiece) {
  return {.head = {}, .run = {nullptr, bytes}, .put = put};
}

/// Rails that move bytes at a steady rate, as simulated time passes.
class SteadyRails {
 public:
  explicit SteadyRails(std::array<double, 2> bytes_per_us) : rates_(bytes_per_us) {
    for (std::size_t i = 0; i < rates_.size(); ++i) pool.use(i, true);
  }
  /// Moves all that the pool has; returns the bytes by each rail.
  std::array<std::size_t, 2> run() {
    std::array<std::size_t, 2> moved{};
    while (!pool.is_empty() || pool.under_way(0) + pool.under_way(1) > 0) {
      for (std::size_t i = 0; i < rates_.size(); ++i) {
        while (pool.may_take(i, now)) moved[i] += pool.take(i, now).run.iov_len;
        progress_[i] = pool.under_way(i) == 0 ? 0 : progress_[i] + kStep * rates_[i];
        while (progress_[i] >= kPiece && pool.under_way(i) > 0) {
          progress_[i] -= kPiece;
          pool.arrived(i, kPiece, now);
        }
      }
      now += microseconds(static_cast<int>(kStep));
    }
    return moved;
  }

  PiecePool pool;
  Clock::time_point now = Clock::now();

 private:
  static constexpr double kStep = 50;
  std::array<double, 2> rates_;
  std::array<double, 2> progress_{};
};

TEST(PiecePool, GivesPiecesInTheirOrderAndThoseThatComeBackFirst) {
  PiecePool pool;
  const auto now = Clock::now();
  pool.use(0, true);
  EXPECT_TRUE(pool.is_empty());
  EXPECT_FALSE(pool.may_take(0, now));
  pool.add(piece_of(1));
  pool.add(piece_of(2));
  EXPECT_EQ(pool.take(0, now).put, 1U);
  EXPECT_EQ(pool.under_way(0), kPiece);
  pool.put_back(piece_of(1));
  EXPECT_EQ(pool.front().put, 1U);
  EXPECT_EQ(pool.take(0, now).put, 1U);
  EXPECT_EQ(pool.take(0, now).put, 2U);
  EXPECT_TRUE(pool.is_empty());
}

TEST(PiecePool, GivesNothingToARailThatIsNotInUse) {
  PiecePool pool;
  const auto now = Clock::now();
  pool.use(0, true);
  pool.add(piece_of(1));
  EXPECT_FALSE(pool.may_take(1, now));
  (void)pool.take(0, now);
  pool.use(0, false);
  pool.add(piece_of(2));
  EXPECT_EQ(pool.under_way(0), 0U);
  EXPECT_FALSE(pool.may_take(0, now));
}

TEST(PiecePool, BoundsWhatIsUnderWayByARailOfUnknownSpeed) {
  PiecePool pool;
  const auto now = Clock::now();
  pool.use(0, true);
  for (int i = 0; i < 100; ++i) pool.add(piece_of(1));
  std::size_t taken = 0;
  for (; pool.may_take(0, now); ++taken) (void)pool.take(0, now);
  EXPECT_EQ(taken, (std::size_t{1} << 20) / kPiece);
  pool.arrived(0, kPiece, now);
  EXPECT_TRUE(pool.may_take(0, now));
}

TEST(PiecePool, GivesOneLargerThanTheBoundToARailWithNothingUnderWay) {
  PiecePool pool;
  const auto now = Clock::now();
  pool.use(0, true);
  pool.add(piece_of(1, std::size_t{8} << 20));
  EXPECT_TRUE(pool.may_take(0, now));
}

TEST(PiecePool, SharesByTheRailsRates) {
  for (const double ratio : {1.0, 3.0, 10.0}) {
    SteadyRails rails({1000 * ratio, 1000});
    for (int i = 0; i < 4000; ++i) rails.pool.add(piece_of(1));
    const auto moved = rails.run();
    const double share = static_cast<double>(moved[0]) / static_cast<double>(moved[0] + moved[1]);
    EXPECT_NEAR(share, ratio / (ratio + 1), 0.05) << ratio;
    EXPECT_NEAR(rails.pool.rate(1), 1e9, 3e8) << ratio;
  }
}

TEST(PiecePool, LeavesATensorsEndToTheFastRail) {
  SteadyRails rails({10'000, 100});
  for (int i = 0; i < 2000; ++i) rails.pool.add(piece_of(1));
  (void)rails.run();
  for (int i = 0; i < 4; ++i) rails.pool.add(piece_of(2));
  EXPECT_FALSE(rails.pool.may_take(1, rails.now));
  EXPECT_TRUE(rails.pool.may_take(0, rails.now));
  // It may be faster by now.
  EXPECT_TRUE(rails.pool.may_take(1, rails.now + seconds(2)));
}

TEST(PiecePool, TriesARailAgainTheMoreRarelyTheSlowerItIs) {
  SteadyRails rails({400, 1});
  for (int i = 0; i < 2000; ++i) rails.pool.add(piece_of(1));
  (void)rails.run();
  const double takes = static_cast<double>(kPiece) / rails.pool.rate(1);
  ASSERT_GT(takes, 0.1);
  for (int i = 0; i < 4; ++i) rails.pool.add(piece_of(2));
  const auto after = [&](double pieces) {
    return rails.now + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double>(pieces * takes));
  };
  EXPECT_FALSE(rails.pool.may_take(1, after(18)));
  EXPECT_TRUE(rails.pool.may_take(1, after(22)));
}

TEST(PiecePool, GivesAllToARailThatIsLeft) {
  SteadyRails rails({10'000, 100});
  for (int i = 0; i < 2000; ++i) rails.pool.add(piece_of(1));
  (void)rails.run();
  rails.pool.add(piece_of(2));
  EXPECT_FALSE(rails.pool.may_take(1, rails.now));
  rails.pool.use(0, false);
  EXPECT_TRUE(rails.pool.may_take(1, rails.now));
}

TEST(PiecePool, ForgetsAllThatItHas) {
  PiecePool pool;
  pool.use(0, true);
  pool.add(piece_of(1));
  pool.clear();
  EXPECT_TRUE(pool.is_empty());
  EXPECT_FALSE(pool.may_take(0, Clock::now()));
}

TEST(UntakenPuts, EndInTheirOrder) {
  UntakenPuts puts;
  EXPECT_EQ(puts.begun(), 0U);
  EXPECT_EQ(puts.ended(), 0U);
  EXPECT_EQ(puts.add(1), 1U);
  EXPECT_EQ(puts.add(3), 2U);
  EXPECT_EQ(puts.add(1), 3U);
  puts.taken(3);
  EXPECT_EQ(puts.ended(), 0U) << "the first is still to come";
  puts.taken(1);
  EXPECT_EQ(puts.ended(), 1U);
  puts.taken(2);
  puts.taken(2);
  EXPECT_EQ(puts.ended(), 1U) << "a record of the second is still to come";
  puts.taken(2);
  EXPECT_EQ(puts.ended(), 3U);
  EXPECT_EQ(puts.begun(), 3U);
  EXPECT_EQ(puts.add(2), 4U);
  EXPECT_EQ(puts.begun(), 4U);
}

}  // namespace
}  // namespace weft::p2p::tcp
