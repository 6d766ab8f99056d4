// Offers and requests meet in either order, each once, within the table's bounds.
#include "p2p/rendezvous/offer_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <string>

namespace weft::p2p::rendezvous {
namespace {

using Outcome = OfferTable::Outcome;

constexpr OfferLimits kLimits{.bytes = 1000, .offers = 4, .requests = 3};

Content bytes(std::int64_t count) {
  Content content;
  content.metadata = {.dtype = DType::u8, .shape = {count}};
  return content;
}

Request request(std::uint32_t item) {
  Request request;
  request.id = {1, 1, item};
  return request;
}

struct Table {
  OfferTable table{kLimits};
  std::uint32_t key = table.number_of("w", [](std::uint32_t) { return false; });
  Match match;

  Outcome offer(std::uint64_t step, std::int64_t count) {
    Content content = bytes(count);
    return table.offer(key, step, content, match);
  }
  Outcome ask(std::uint64_t step, std::uint32_t item) {
    return table.ask(key, step, request(item), match);
  }
};

TEST(OfferTable, MatchesInEitherOrder) {
  Table t;
  EXPECT_EQ(t.offer(1, 10), Outcome::parked);
  EXPECT_EQ(t.ask(1, 0), Outcome::matched);
  EXPECT_EQ(t.match.content.metadata.bytes(), 10U);
  EXPECT_EQ(t.ask(2, 5), Outcome::parked);
  EXPECT_EQ(t.offer(2, 20), Outcome::matched);
  EXPECT_EQ(t.match.request.id.item, 5U);
  EXPECT_EQ(t.match.content.metadata.bytes(), 20U);
  EXPECT_EQ(t.table.offers(), 0U);
  EXPECT_EQ(t.table.requests(), 0U);
  EXPECT_EQ(t.table.parked_bytes(), 0U);
}

TEST(OfferTable, RefusesASecondUse) {
  Table t;
  EXPECT_EQ(t.offer(1, 10), Outcome::parked);
  EXPECT_EQ(t.offer(1, 10), Outcome::duplicate);
  EXPECT_EQ(t.ask(1, 0), Outcome::matched);
  EXPECT_EQ(t.offer(1, 10), Outcome::duplicate);
  EXPECT_EQ(t.ask(1, 0), Outcome::duplicate);
  EXPECT_EQ(t.ask(2, 0), Outcome::parked);
  EXPECT_EQ(t.ask(2, 1), Outcome::duplicate);
}

TEST(OfferTable, IsBounded) {
  Table t;
  for (std::uint64_t step = 0; step < 4; ++step) EXPECT_EQ(t.offer(step, 1), Outcome::parked);
  EXPECT_EQ(t.offer(4, 1), Outcome::full);
  EXPECT_EQ(t.ask(0, 0), Outcome::matched);
  EXPECT_FALSE(t.table.has_room(998));
  EXPECT_TRUE(t.table.has_room(997));
  for (std::uint32_t item = 0; item < 3; ++item)
    EXPECT_EQ(t.ask(100 + item, item), Outcome::parked);
  EXPECT_EQ(t.ask(200, 3), Outcome::full);
  // A tensor that was asked for is not parked, so it needs no room.
  EXPECT_EQ(t.offer(100, 5000), Outcome::matched);
}

TEST(OfferTable, TakesATensorLargerThanItsBytesWhenItIsAlone) {
  Table t;
  EXPECT_EQ(t.offer(1, 5000), Outcome::parked);
  EXPECT_EQ(t.offer(2, 1), Outcome::full);
}

TEST(OfferTable, KnowsTheOldest) {
  Table t;
  t.offer(9, 1);
  t.offer(3, 1);
  EXPECT_EQ(t.table.oldest().step, 9U);
  EXPECT_EQ(t.table.oldest().key, "w");
  t.ask(9, 0);
  t.table.await(std::move(t.match));
  EXPECT_EQ(t.table.oldest().step, 3U);
  t.ask(3, 1);
  EXPECT_EQ(t.table.oldest().step, 9U);
}

TEST(OfferTable, KeepsWhatWaitsForRoomUntilAskedAgain) {
  Table t;
  t.offer(1, 10);
  t.ask(1, 7);
  t.table.await(std::move(t.match));
  EXPECT_EQ(t.table.parked_bytes(), 10U);
  EXPECT_FALSE(t.table.take_awaited({1, 2, 7}));
  const auto match = t.table.take_awaited({1, 1, 7});
  ASSERT_TRUE(match);
  EXPECT_EQ(match->step, 1U);
  EXPECT_FALSE(t.table.take_awaited({1, 1, 7}));
  EXPECT_EQ(t.table.parked_bytes(), 0U);
}

TEST(OfferTable, ForgetsWhatIsCancelled) {
  Table t;
  t.ask(1, 4);
  EXPECT_TRUE(t.table.cancel({1, 1, 4}));
  EXPECT_FALSE(t.table.cancel({1, 1, 4}));
  EXPECT_EQ(t.table.requests(), 0U);
  EXPECT_EQ(t.offer(1, 10), Outcome::parked);
  EXPECT_EQ(t.ask(1, 5), Outcome::matched);
  t.table.await(std::move(t.match));
  EXPECT_TRUE(t.table.cancel({1, 1, 5}));
  EXPECT_EQ(t.table.parked_bytes(), 0U);
}

TEST(OfferTable, NamesTheRequestsThatItForgets) {
  Table t;
  t.offer(1, 10);
  t.ask(2, 4);
  t.offer(3, 10);
  t.ask(3, 5);
  t.table.await(std::move(t.match));
  const auto unanswered = t.table.clear();
  ASSERT_EQ(unanswered.size(), 2U);
  EXPECT_EQ(unanswered[0].item, 4U);
  EXPECT_EQ(unanswered[1].item, 5U);
  EXPECT_EQ(t.table.offers() + t.table.requests() + t.table.parked_bytes(), 0U);
}

TEST(OfferTable, SaysWhatIsLent) {
  Table t;
  std::array<std::byte, 8> memory{};
  Content content = bytes(8);
  content.tensor = Tensor::wrap(memory.data(), DType::u8, {8});
  EXPECT_EQ(t.table.offer(t.key, 1, content, t.match), Outcome::parked);
  EXPECT_TRUE(t.table.lent("w", 1));
  EXPECT_FALSE(t.table.lent("w", 2));
  EXPECT_FALSE(t.table.lent("v", 1));
  t.ask(1, 0);
  EXPECT_FALSE(t.table.lent("w", 1));
  t.match.content.owned = true;
  t.table.await(std::move(t.match));
  EXPECT_FALSE(t.table.lent("w", 1));
}

TEST(OfferTable, CountsRightWhateverHappens) {
  const auto seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  Table t;
  std::map<std::uint64_t, std::size_t> parked;
  std::set<std::uint64_t> asked;
  std::map<std::uint64_t, std::size_t> awaited;
  const auto total = [&] {
    std::size_t sum = 0;
    for (const auto& [step, size] : parked) sum += size;
    for (const auto& [step, size] : awaited) sum += size;
    return sum;
  };
  std::uint64_t offer_next = 0;
  std::uint64_t ask_next = 0;
  const auto id = [](std::uint64_t step) {
    return RequestId{static_cast<std::uint32_t>(step), 1, 0};
  };
  for (int turn = 0; turn < 20'000; ++turn) {
    const bool offers = random() % 2 == 0;
    if (random() % 4 == 0 && !awaited.empty()) {
      EXPECT_TRUE(t.table.take_awaited(id(awaited.begin()->first)));
      awaited.erase(awaited.begin());
    } else if (offers) {
      const std::size_t size = random() % 600;
      const auto outcome = t.offer(offer_next, static_cast<std::int64_t>(size));
      if (asked.contains(offer_next)) {
        EXPECT_EQ(outcome, Outcome::matched);
        asked.erase(offer_next++);
      } else if (outcome == Outcome::parked) {
        parked[offer_next++] = size;
      } else {
        EXPECT_EQ(outcome, Outcome::full);
      }
    } else {
      Request request;
      request.id = id(ask_next);
      const auto outcome = t.table.ask(t.key, ask_next, request, t.match);
      if (parked.contains(ask_next)) {
        EXPECT_EQ(outcome, Outcome::matched);
        if (random() % 2 == 0) {
          awaited[ask_next] = parked[ask_next];
          t.table.await(std::move(t.match));
        }
        parked.erase(ask_next++);
      } else if (outcome == Outcome::parked) {
        asked.insert(ask_next++);
      } else {
        EXPECT_EQ(outcome, Outcome::full);
      }
    }
    ASSERT_EQ(t.table.offers(), parked.size() + awaited.size());
    ASSERT_EQ(t.table.requests(), asked.size());
    ASSERT_EQ(t.table.parked_bytes(), total());
  }
}

TEST(OfferTable, KeepsNoMoreKeysThanAreInUse) {
  OfferTable table(kLimits);
  const auto number_of = [&](const std::string& name) {
    return table.number_of(name, [](std::uint32_t) { return false; });
  };
  const std::uint32_t pinned = number_of("pinned");
  table.pin(pinned);
  const std::uint32_t offered = number_of("offered");
  Content content = bytes(10);
  Match match;
  EXPECT_EQ(table.offer(offered, 1, content, match), Outcome::parked);
  for (int step = 0; step < 100'000; ++step) {
    const std::uint32_t key = number_of("step " + std::to_string(step));
    content = bytes(10);
    // A key number that is reused knows none of the former key's steps.
    ASSERT_EQ(table.offer(key, 1, content, match), Outcome::parked) << step;
    ASSERT_EQ(table.ask(key, 1, request(0), match), Outcome::matched) << step;
  }
  EXPECT_EQ(table.keys().size(), OfferTable::kKeptKeys);
  EXPECT_EQ(number_of("pinned"), pinned);
  EXPECT_EQ(number_of("offered"), offered);
  EXPECT_EQ(table.ask(offered, 1, request(0), match), Outcome::matched);
}

}  // namespace
}  // namespace weft::p2p::rendezvous
