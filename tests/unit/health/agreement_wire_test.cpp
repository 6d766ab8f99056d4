// Messages of an agreement, of groups of every size, in parts that fit control messages.
#include "runtime/health/agreement_wire.hpp"

#include <gtest/gtest.h>

#include <random>

#include "p2p/transport/channel.hpp"

namespace weft::detail {
namespace {

enum class Kind { none, one, half, alternating, random, all };

Places set_of(Kind kind, std::size_t size, std::mt19937_64& random) {
  Places set(size, kind == Kind::all);
  if (kind == Kind::one) set[random() % size] = true;
  for (std::size_t m = 0; m < size; ++m) {
    if (kind == Kind::half) set[m] = m >= size / 2;
    if (kind == Kind::alternating) set[m] = m % 2 == 1;
    if (kind == Kind::random) set[m] = random() % 2 == 0;
  }
  return set;
}

/// The message as the receiver of its parts gets it.
std::optional<std::vector<std::byte>> sent(const std::vector<std::byte>& bytes, JoinedParts& to) {
  std::optional<std::vector<std::byte>> whole;
  for (const auto& part : cut(bytes)) {
    EXPECT_LE(part.size(), p2p::Channel::kMaxMessage);
    EXPECT_FALSE(whole) << "a whole message before its last part";
    whole = to.add(part);
  }
  return whole;
}

TEST(AgreementWire, CarriesSetsOfEveryKindAndSize) {
  std::mt19937_64 random(7);
  JoinedParts parts;
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{9}, std::size_t{1000},
                                 std::size_t{5001}, kMostMembers})
    for (const Kind kind :
         {Kind::none, Kind::one, Kind::half, Kind::alternating, Kind::random, Kind::all}) {
      AgreementMessage message;
      message.step = AgreementMessage::Step::promise;
      message.ballot = 77;
      message.accepted = 5;
      message.survivors = set_of(kind, size, random);
      message.gone = set_of(Kind::random, size, random);
      message.ended = set_of(kind, size, random);
      message.members = set_of(Kind::half, size, random);
      message.more = kind == Kind::one;
      for (std::size_t i = 0; kind != Kind::none && i < kMostViews; ++i)
        message.views.push_back({set_of(Kind::one, size, random), set_of(kind, size, random),
                                 set_of(Kind::random, size, random)});
      const auto whole = sent(encode(9, message), parts);
      ASSERT_TRUE(whole);
      EXPECT_EQ(group_of(*whole), 9U);
      const auto back = decode(*whole, size);
      ASSERT_TRUE(back) << size;
      EXPECT_EQ(back->ballot, 77U);
      EXPECT_EQ(back->accepted, 5U);
      EXPECT_TRUE(back->survivors == message.survivors && back->gone == message.gone &&
                  back->ended == message.ended && back->members == message.members);
      EXPECT_EQ(back->more, message.more);
      ASSERT_EQ(back->views.size(), message.views.size());
      for (std::size_t i = 0; i < message.views.size(); ++i)
        EXPECT_TRUE(back->views[i].members == message.views[i].members &&
                    back->views[i].gone == message.views[i].gone &&
                    back->views[i].accusers == message.views[i].accusers);
      EXPECT_FALSE(decode(*whole, size + 1));
      EXPECT_FALSE(decode(std::span(*whole).first(whole->size() - 1), size));
    }
}

TEST(AgreementWire, RefusesMoreViewsThanAMessageHas) {
  AgreementMessage message;
  message.step = AgreementMessage::Step::promise;
  message.views.assign(kMostViews, {Places(3), Places(3), Places(3)});
  EXPECT_TRUE(decode(encode(9, message), 3));
  message.views.push_back({Places(3), Places(3), Places(3)});
  EXPECT_FALSE(decode(encode(9, message), 3));
}

TEST(AgreementWire, TakesFewBytesForFewDead) {
  AgreementMessage message;
  message.step = AgreementMessage::Step::promise;
  message.survivors = Places(kMostMembers, true);
  message.gone = message.ended = Places(kMostMembers, false);
  message.gone[40'000] = message.ended[40'000] = true;
  message.survivors[40'000] = false;
  EXPECT_LT(encode(9, message).size(), 100U);
}

TEST(AgreementWire, DropsPartsThatDontFollowEachOther) {
  std::mt19937_64 random(8);
  AgreementMessage message;
  message.survivors = set_of(Kind::random, kMostMembers, random);
  const auto bytes = encode(9, message);
  const auto parts = cut(bytes);
  ASSERT_GT(parts.size(), 3U);
  JoinedParts to;
  for (const std::size_t part : {std::size_t{1}, std::size_t{0}, std::size_t{2}, std::size_t{1}})
    EXPECT_FALSE(to.add(parts[part]));
  for (std::size_t part = 2; part < parts.size(); ++part) EXPECT_FALSE(to.add(parts[part]));
  EXPECT_FALSE(to.add({}));
  // The next message does not suffer.
  EXPECT_EQ(sent(bytes, to), bytes);
}

}  // namespace
}  // namespace weft::detail
