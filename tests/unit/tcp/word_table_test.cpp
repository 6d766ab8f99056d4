// A peer's puts set the words that it was told of, and no others.
#include <gtest/gtest.h>

#include <array>

#include "p2p/tcp/word_table.hpp"

namespace weft::p2p::tcp {
namespace {

using Words = std::array<std::uint64_t, 4>;

ExpectedWords in_turn(Words& words, std::uint64_t last = 0) {
  return {.words = reinterpret_cast<std::byte*>(words.data()),
          .count = static_cast<std::uint32_t>(words.size()),
          .stride = sizeof(std::uint64_t),
          .in_turn = true,
          .last = last};
}

TEST(WordTable, SetsWordsInTurn) {
  Words words{};
  WordTable table;
  const std::uint32_t slot = table.add(in_turn(words));
  for (std::uint64_t sequence = 1; sequence <= 6; ++sequence)
    EXPECT_EQ(table.arrived(slot, sequence), WordTable::Arrival::set);
  EXPECT_EQ(words, (Words{5, 6, 3, 4}));
  EXPECT_EQ(table.arrived(slot, 6), WordTable::Arrival::out_of_turn);
  EXPECT_EQ(table.arrived(slot, 8), WordTable::Arrival::out_of_turn);
  EXPECT_EQ(words, (Words{5, 6, 3, 4}));
}

TEST(WordTable, SetsEachOfSeveralToRisingValues) {
  Words words{};
  WordTable table;
  ExpectedWords expected = in_turn(words);
  expected.in_turn = false;
  const std::uint32_t first = table.add(expected);
  EXPECT_EQ(table.arrived(first + 2, 9), WordTable::Arrival::set);
  EXPECT_EQ(table.arrived(first + 2, 4), WordTable::Arrival::set);  // late, and nobody's any more
  EXPECT_EQ(words, (Words{0, 0, 9, 0}));
  EXPECT_EQ(table.arrived(first + 4, 1), WordTable::Arrival::unknown);
}

TEST(WordTable, ForgetsAndUsesIndexesAgain) {
  Words words{};
  WordTable table;
  ExpectedWords four = in_turn(words);
  four.in_turn = false;
  const std::uint32_t a = table.add(four);
  const std::uint32_t b = table.add(four);
  const std::uint32_t c = table.add(in_turn(words));
  table.remove(a);
  table.remove(b);
  EXPECT_FALSE(table.expects(a));
  EXPECT_EQ(table.arrived(b, 1), WordTable::Arrival::unknown);
  EXPECT_TRUE(table.expects(c));
  ExpectedWords eight = four;
  eight.count = 8;
  EXPECT_EQ(table.add(eight), a);  // both together
}

}  // namespace
}  // namespace weft::p2p::tcp
