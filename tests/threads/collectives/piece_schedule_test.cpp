// The pieces of a part between two ranks: both ends must count the same pieces.
#include "runtime/collective/piece_schedule.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <random>

namespace weft::tests {
namespace {

using detail::Piece;
using detail::PieceSchedule;

TEST(PieceSchedule, OfNothingIsOverAtOnceAndOfNoBytesIsAHead) {
  EXPECT_TRUE(PieceSchedule().over());
  EXPECT_TRUE(PieceSchedule(false, 0, 0, Piece::kUsual).over());
  PieceSchedule head(true, 0, 0, Piece::kUsual);
  ASSERT_FALSE(head.over());
  const Piece piece = head.next();
  EXPECT_TRUE(piece.headed);
  EXPECT_EQ(piece.bytes, 0U);
  head.pass(piece);
  EXPECT_TRUE(head.over());
}

TEST(PieceSchedule, CoversBothPartsInOrderAndKeepsTheFirstFewPiecesAhead) {
  const char* given = std::getenv("WEFT_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::cout << "WEFT_TEST_SEED=" << seed << " repeats this run\n";
  std::mt19937_64 random(seed);
  for (int turn = 0; turn < 2000; ++turn) {
    const std::size_t sizes[] = {random() % 100, random() % 70'000, random() % 5'000'000};
    const std::size_t bytes[] = {sizes[random() % 3], sizes[random() % 3]};
    const std::size_t usual = std::array{Piece::kUsual, Piece::kMost, Piece::kLong}[random() % 3];
    PieceSchedule piece_schedule(true, bytes[0], bytes[1], usual);
    std::size_t offset[] = {0, 0};
    std::size_t pieces[] = {0, 0};
    while (!piece_schedule.over()) {
      const Piece piece = piece_schedule.next();
      const std::size_t part = piece.second ? 1 : 0;
      ASSERT_EQ(piece.offset, offset[part]);
      ASSERT_EQ(piece.number, pieces[part]);
      ASSERT_EQ(piece.headed, pieces[0] == 0);
      ASSERT_LE(piece.bytes + (piece.headed ? Piece::kHead : 0), usual);
      // Its own end is at the same place in a part of this size, whichever of the two that is.
      ASSERT_EQ(piece.bytes, PieceSchedule::cut(bytes[part], offset[part], usual).bytes);
      offset[part] += piece.bytes;
      ++pieces[part];
      if (offset[1] < bytes[1]) {
        ASSERT_LE(pieces[0], pieces[1] + PieceSchedule::ahead(usual));
      }
      piece_schedule.pass(piece);
    }
    ASSERT_EQ(offset[0], bytes[0]);
    ASSERT_EQ(offset[1], bytes[1]);
  }
}

TEST(PieceSchedule, StagesNoMoreThanAPiece) {
  for (const std::size_t total : {0UL, 1UL, Piece::kMostHeaded, Piece::kUsual, 9'000'000UL})
    EXPECT_LE(PieceSchedule::cut(total, 0, Piece::kLong).bytes + Piece::kHead, Piece::kUsual);
}

}  // namespace
}  // namespace weft::tests
