// A peer's puts set the words that the peer was given, and no others.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "p2p/transport/notification_table.hpp"
#include "weft/error.hpp"

namespace weft::p2p {
namespace {

using Words = std::array<std::uint64_t, 4>;

ExpectedWords in_turn(Words& words, std::uint64_t last = 0) {
  return {.words = reinterpret_cast<std::byte*>(words.data()),
          .count = static_cast<std::uint32_t>(words.size()),
          .stride = sizeof(std::uint64_t),
          .in_turn = true,
          .last = last};
}

TEST(NotificationTable, SetsWordsInTurn) {
  Words words{};
  NotificationTable table;
  const std::uint32_t slot = table.add(in_turn(words));
  for (std::uint64_t sequence = 1; sequence <= 6; ++sequence)
    EXPECT_EQ(table.arrived(slot, sequence), NotificationTable::Arrival::set);
  EXPECT_EQ(words, (Words{5, 6, 3, 4}));
  EXPECT_EQ(table.arrived(slot, std::uint64_t{6}), NotificationTable::Arrival::out_of_turn);
  EXPECT_EQ(table.arrived(slot, std::uint64_t{8}), NotificationTable::Arrival::out_of_turn);
  EXPECT_EQ(words, (Words{5, 6, 3, 4}));
}

TEST(NotificationTable, SetsEachOfSeveralToRisingValues) {
  Words words{};
  NotificationTable table;
  ExpectedWords expected = in_turn(words);
  expected.in_turn = false;
  const std::uint32_t first = table.add(expected);
  EXPECT_EQ(table.arrived(first + 2, std::uint64_t{9}), NotificationTable::Arrival::set);
  EXPECT_EQ(table.arrived(first + 2, std::uint64_t{4}),
            NotificationTable::Arrival::set);  // late, and nobody's any more
  EXPECT_EQ(words, (Words{0, 0, 9, 0}));
  EXPECT_EQ(table.arrived(first + 4, std::uint64_t{1}), NotificationTable::Arrival::unknown);
}

TEST(NotificationTable, LetsAPutWriteOnlyWhatWasGrantedForItsWord) {
  using Place = NotificationTable::Place;
  Words words{};
  NotificationTable table;
  ExpectedWords expected = in_turn(words);
  expected.places = {MemoryRef{1, 4096, 256}, MemoryRef{2, 0, 64}};
  const std::uint32_t slot = table.add(expected);
  for (const MemoryRef place :
       {MemoryRef{1, 4096, 256}, MemoryRef{1, 4351, 1}, MemoryRef{2, 0, 64}, MemoryRef{1, 4352, 0}})
    EXPECT_EQ(table.judge(slot, 1, place), Place::granted);
  for (const MemoryRef place :
       {MemoryRef{1, 4095, 1}, MemoryRef{1, 4096, 257}, MemoryRef{1, 4352, 1}, MemoryRef{3, 0, 8},
        MemoryRef{2, 1, 64}, MemoryRef{1, ~std::uint64_t{0}, 1}, MemoryRef{1, 4097, ~0ULL}})
    EXPECT_EQ(table.judge(slot, 1, place), Place::elsewhere) << place.offset;
  EXPECT_EQ(table.judge(slot + 1, 1, {1, 4096, 8}), Place::unknown);
}

TEST(NotificationTable, GrantsEachWordThatIsSetForItselfItsOwnPlace) {
  using Place = NotificationTable::Place;
  Words words{};
  NotificationTable table;
  ExpectedWords expected = in_turn(words);
  expected.in_turn = false;
  const std::uint32_t first = table.add(expected);
  EXPECT_EQ(table.judge(first, 1, {1, 0, 8}), Place::elsewhere);
  table.grant(first, {1, 0, 8});
  EXPECT_EQ(table.judge(first, 1, {1, 0, 8}), Place::granted);
  EXPECT_EQ(table.judge(first + 1, 1, {1, 0, 8}), Place::elsewhere);
  EXPECT_EQ(table.arrived(first, std::uint64_t{1}), NotificationTable::Arrival::set);
  table.grant(first, {1, 64, 8});
  EXPECT_EQ(table.judge(first, 1, {1, 0, 8}), Place::late);
  EXPECT_EQ(table.judge(first, 2, {1, 0, 8}), Place::elsewhere);
}

TEST(NotificationTable, ForgetsAndUsesIndexesAgain) {
  Words words{};
  NotificationTable table;
  ExpectedWords four = in_turn(words);
  four.in_turn = false;
  const std::uint32_t a = table.add(four);
  const std::uint32_t b = table.add(four);
  const std::uint32_t c = table.add(in_turn(words));
  table.remove(a);
  table.remove(b);
  EXPECT_FALSE(table.expects(a));
  EXPECT_EQ(table.arrived(b, std::uint64_t{1}), NotificationTable::Arrival::unknown);
  EXPECT_TRUE(table.expects(c));
  ExpectedWords eight = four;
  eight.count = 8;
  EXPECT_EQ(table.add(eight), a);  // both together
}

TEST(NotificationTable, KeepsHalfOfItselfForWordsThatAPeerCantDoWithout) {
  Words words{};
  NotificationTable table({.most = 16});
  ExpectedWords four = in_turn(words);
  four.in_turn = false;
  ExpectedWords spare = four;
  spare.may_lack = true;
  const std::uint32_t first = table.add(spare);
  (void)table.add(spare);
  EXPECT_THROW((void)table.add(spare), Error);
  (void)table.add(four);
  (void)table.add(four);
  try {
    (void)table.add(four);
    FAIL() << "there are 16 words";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("16 words here already, 4 more"), std::string::npos)
        << error.what();
  }
  table.remove(first);
  EXPECT_THROW((void)table.add(spare), Error) << "12 are in use";
  EXPECT_EQ(table.add(four), first);
}

}  // namespace
}  // namespace weft::p2p
