// Requests have completion words in groups; a word is reused only when no peer can write it.
#include "p2p/rendezvous/request_groups.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::p2p::rendezvous {
namespace {

using Known = RequestGroups::Known;

struct Groups {
  alignas(64) std::array<std::byte, 2 * kGroupBytes> words{};
  RequestGroups groups{words.data(), 2};
  std::uint32_t key = groups.number_of("w");

  Item* ask(std::uint64_t step) {
    if (!groups.begin_group()) return nullptr;
    Item* item = groups.add(key, step);
    groups.end_group();
    return item;
  }
  /// Completes an item as the sender does.
  void complete(const Item& item) {
    reinterpret_cast<std::atomic<std::uint64_t>*>(words.data() + word_offset(item.id))
        ->store(item.id.generation);
  }
};

TEST(RequestGroups, KnowTheirItemsByTheWords) {
  Groups g;
  ASSERT_TRUE(g.groups.begin_group());
  Item* first = g.groups.add(g.key, 1);
  Item* second = g.groups.add(g.key, 2);
  g.groups.end_group();
  EXPECT_FALSE(first->done());
  g.complete(*second);
  EXPECT_FALSE(first->done());
  EXPECT_TRUE(second->done());
  g.complete(*first);
  EXPECT_TRUE(first->done());
}

TEST(RequestGroups, HaveNoMoreThanTheirWords) {
  Groups g;
  std::vector<Item*> items;
  std::set<std::pair<std::uint32_t, std::uint32_t>> places;
  for (std::uint64_t step = 1; step <= 2 * kGroupItems; ++step) {
    items.push_back(g.ask(step));
    ASSERT_TRUE(items.back()) << step;
    places.insert({items.back()->id.group, items.back()->id.item});
  }
  EXPECT_EQ(places.size(), 2 * kGroupItems);
  EXPECT_FALSE(g.groups.begin_group());
  g.groups.release(*items.front(), true);
  EXPECT_FALSE(g.groups.begin_group()) << "a word is used again only with its group";
  const std::uint32_t group = items.front()->id.group;
  for (Item* item : items)
    if (item != items.front() && item->id.group == group) g.groups.release(*item, true);
  EXPECT_TRUE(g.groups.begin_group());
}

TEST(RequestGroups, AreNotUsedAgainWhileOneItemIsUnderWay) {
  Groups g;
  ASSERT_TRUE(g.groups.begin_group());
  Item* first = g.groups.add(g.key, 1);
  Item* second = g.groups.add(g.key, 2);
  g.groups.end_group();
  g.groups.release(*first, true);
  EXPECT_EQ(g.groups.free_groups(), 1U);
  g.groups.release(*second, true);
  EXPECT_EQ(g.groups.free_groups(), 2U);
}

TEST(RequestGroups, TellAnOldUseOfAWordFromANewOne) {
  Groups g;
  Item* item = g.ask(1);
  const RequestId old = item->id;
  g.complete(*item);
  g.groups.release(*item, true);
  item = g.ask(2);
  EXPECT_EQ(item->id.group, old.group);
  EXPECT_FALSE(item->done());
  EXPECT_EQ(g.groups.find(old), nullptr);
  EXPECT_EQ(g.groups.find(item->id), item);
}

TEST(RequestGroups, FindNothingThatWasNotAsked) {
  Groups g;
  Item* item = g.ask(1);
  RequestId id = item->id;
  id.item = 1;
  EXPECT_EQ(g.groups.find(id), nullptr);
  id = item->id;
  id.group = 77;
  EXPECT_EQ(g.groups.find(id), nullptr);
  id = item->id;
  ++id.generation;
  EXPECT_EQ(g.groups.find(id), nullptr);
  g.complete(*item);
  EXPECT_EQ(g.groups.find(item->id), nullptr);
}

TEST(RequestGroups, RememberWhatWasReceived) {
  Groups g;
  Item* found = nullptr;
  EXPECT_EQ(g.groups.known(g.key, 1, found), Known::no);
  Item* item = g.ask(1);
  EXPECT_EQ(g.groups.known(g.key, 1, found), Known::being_received);
  item->waited = false;
  EXPECT_EQ(g.groups.known(g.key, 1, found), Known::left_behind);
  EXPECT_EQ(found, item);
  g.groups.release(*item, true);
  EXPECT_EQ(g.groups.known(g.key, 1, found), Known::received);
  g.groups.release(*g.ask(2), false);
  EXPECT_EQ(g.groups.known(g.key, 2, found), Known::no);
}

TEST(RequestGroups, TakeBackWhatDidNotFit) {
  Groups g;
  ASSERT_TRUE(g.groups.begin_group());
  g.groups.take_back(*g.groups.add(g.key, 1));
  g.groups.end_group();
  EXPECT_EQ(g.groups.free_groups(), 2U);
  EXPECT_EQ(g.groups.live(), 0U);
}

TEST(RequestGroups, KeepNoMoreKeysThanAreInUse) {
  Groups g;
  Item* const waiting = g.ask(1);
  ASSERT_NE(waiting, nullptr);
  for (int step = 0; step < 100'000; ++step) {
    const std::uint32_t key = g.groups.number_of("step " + std::to_string(step));
    Item* found = nullptr;
    ASSERT_EQ(g.groups.known(key, 1, found), Known::no) << "another key's step, " << step;
    ASSERT_FALSE(g.groups.key(key).announced) << "the sender knows another key by this number";
    ASSERT_TRUE(g.groups.begin_group());
    Item* item = g.groups.add(key, 1);
    g.groups.end_group();
    g.groups.key(key).announced = true;
    g.complete(*item);
    g.groups.release(*item, true);
  }
  EXPECT_EQ(g.groups.keys().size(), RequestGroups::kKeptKeys);
  EXPECT_EQ(g.groups.number_of("w"), g.key) << "a request is about it";
  EXPECT_EQ(g.groups.keys().name(waiting->key), "w");
}

}  // namespace
}  // namespace weft::p2p::rendezvous
