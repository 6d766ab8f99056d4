// The parts of publications: rows, changes by version, the choice of rows for each subscriber,
// messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "pslib/publication/history.hpp"
#include "pslib/publication/snapshots.hpp"
#include "pslib/publication/wire.hpp"
#include "tests/seeds.hpp"

namespace weft::pslib {
namespace {

using Rows = std::set<std::pair<std::uint32_t, std::uint64_t>>;

Rows rows_of(std::span<const RowRun> runs) {
  Rows rows;
  for (const RowRun& run : runs)
    for (std::uint64_t i = 0; i < run.rows; ++i)
      EXPECT_TRUE(rows.emplace(run.tensor, run.first + i).second) << "a row comes twice";
  return rows;
}

RowRuns runs_of(const Rows& rows) {
  RowRuns runs;
  for (const auto& [tensor, row] : rows)
    runs = unite(runs, RowRuns{{.tensor = tensor, .rows = 1, .first = row}});
  return runs;
}

std::vector<PublishedTensor> specs() {
  return {{.name = "rows", .dtype = DType::f32, .shape = {40, 3}},
          {.name = "none", .dtype = DType::f64, .shape = {0, 3}},
          {.name = "line", .dtype = DType::u8, .shape = {130}},
          {.name = "one", .dtype = DType::bf16, .shape = {}}};
}

TEST(PublishedLayout, HasRowsOfTheFirstDimensionOrOf64Bytes) {
  const PublishedLayout layout(specs());
  const auto& tensors = layout.tensors();
  EXPECT_EQ(tensors[0].rows, 40U);
  EXPECT_EQ(tensors[0].row_bytes, 12U);
  EXPECT_EQ(tensors[1].rows, 0U);
  EXPECT_EQ(tensors[2].rows, 3U);
  EXPECT_EQ(layout.bytes(weft::pslib::RowRun{.tensor = 2, .rows = 1, .first = 2}), 2U);
  EXPECT_EQ(tensors[3].rows, 1U);
  EXPECT_EQ(layout.bytes(), 480U + 130U + 2U);
  EXPECT_EQ(layout.bytes(layout.all()), layout.bytes());
  for (const auto& tensor : tensors) EXPECT_EQ(tensor.offset % PublishedLayout::kLine, 0U);
}

TEST(PublishedLayout, AcceptsRunsInOrderThatItHasAndNoOthers) {
  const PublishedLayout layout(specs());
  EXPECT_TRUE(layout.valid(layout.all()));
  EXPECT_TRUE(layout.valid(RowRuns{{0, 2, 1}, {0, 37, 3}, {2, 1, 2}}));
  for (const RowRuns& wrong :
       {RowRuns{{0, 0, 1}}, RowRuns{{4, 1, 0}}, RowRuns{{0, 41, 0}}, RowRuns{{0, 1, 40}},
        RowRuns{{1, 1, 0}}, RowRuns{{0, 2, 1}, {0, 1, 2}}, RowRuns{{2, 1, 0}, {0, 1, 0}},
        RowRuns{{0, 2, ~0ULL}}})
    EXPECT_FALSE(layout.valid(wrong));
}

TEST(History, KnowsWhatChangedSinceEachVersionThatItStillHolds) {
  for (std::uint64_t seed = 1; seed <= tests::seeds(300); ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const std::size_t most = random() % 8;
    const std::size_t most_runs = 1 + random() % 60;
    History history(most, most_runs);
    std::vector<Rows> changes;
    for (std::uint64_t version = 1; version <= 30; ++version) {
      Rows changed;
      for (auto count = random() % 12; count > 0; --count)
        changed.emplace(random() % 3, random() % 20);
      const RowRuns runs = runs_of(changed);
      EXPECT_EQ(rows_of(runs), changed) << "seed " << seed;
      history.add(runs);
      changes.push_back(changed);
      EXPECT_EQ(history.newest(), version);
      EXPECT_FALSE(history.since(0));
      EXPECT_FALSE(history.since(version + 1));
      ASSERT_TRUE(history.since(version)) << "seed " << seed;
      EXPECT_TRUE(history.since(version)->empty());
      Rows all;
      std::size_t held = 0;
      for (std::uint64_t since = version; since-- > 1;) {
        all.insert(changes[since].begin(), changes[since].end());
        held += runs_of(changes[since]).size();
        const auto known = history.since(since);
        EXPECT_EQ(known.has_value(), version - since <= most && held <= most_runs)
            << "seed " << seed << ", from " << since << " to " << version;
        if (!known) break;
        EXPECT_EQ(rows_of(History::united(*known)), all) << "seed " << seed;
        EXPECT_EQ(History::united(*known), runs_of(all)) << "seed " << seed << ": runs that touch";
      }
    }
  }
}

/// A publication of one tensor, without a publisher.
class Versions : public testing::Test {
 public:
  explicit Versions(int buffers = 3)
      : snapshots(std::make_shared<const PublishedLayout>(tensor()),
                  {.buffers = buffers, .history = 4}) {}

  static std::vector<PublishedTensor> tensor() {
    return {{.name = "t", .dtype = DType::i32, .shape = {64}}};
  }
  void publish(std::int32_t value) {
    values.assign(values.size(), value);
    snapshots.publish({reinterpret_cast<std::byte*>(values.data())}, 0);
  }
  /// The value under a lease; nullopt if the lease was revoked.
  std::optional<std::int32_t> read(const Snapshots::Offer& offer) {
    std::int32_t value = 0;
    const bool holds = snapshots.with(offer.lease, [&] {
      std::memcpy(&value, offer.places[0], sizeof value);
      return true;
    });
    return holds ? std::optional(value) : std::nullopt;
  }

  Snapshots snapshots;
  std::vector<std::int32_t> values = std::vector<std::int32_t>(64);
};

TEST_F(Versions, AreKeptForWhoBeganFirst) {
  publish(1);
  const auto first = snapshots.offer(0);
  publish(2);
  const auto second = snapshots.offer(0);
  for (int value = 3; value < 10; ++value) {
    publish(value);
    EXPECT_EQ(read(first), 1);
    const auto third = snapshots.offer(0);
    EXPECT_EQ(read(third), value);
    snapshots.end(third.lease);
  }
  EXPECT_EQ(read(second), std::nullopt);
  // The next offer is kept once the first lease has ended.
  const auto next = snapshots.offer(0);
  snapshots.end(first.lease);
  for (int value = 10; value < 20; ++value) {
    publish(value);
    EXPECT_EQ(read(next), 9);
  }
}

TEST_F(Versions, AreTakenFromWhoStalls) {
  publish(1);
  const auto stalled = snapshots.offer(0);
  EXPECT_TRUE(snapshots.with(stalled.lease, [] { return false; }));
  std::this_thread::sleep_for(Snapshots::kStalled + std::chrono::milliseconds(50));
  publish(2);
  const auto second = snapshots.offer(0);
  publish(3);
  EXPECT_EQ(read(second), 2);
  publish(4);
  EXPECT_EQ(read(stalled), std::nullopt);
  EXPECT_EQ(read(second), 2);
}

TEST(Messages, OfSpecsComeBackAsTheyWere) {
  const auto all = specs();
  const auto bytes = wire::encode(all);
  const auto back = wire::decode(bytes, all.size());
  ASSERT_TRUE(back);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ((*back)[i].name, all[i].name);
    EXPECT_EQ((*back)[i].dtype, all[i].dtype);
    EXPECT_EQ((*back)[i].shape, all[i].shape);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(wire::decode(std::span(bytes).first(size), all.size()));
  EXPECT_FALSE(wire::decode(bytes, all.size() - 1));
}

TEST(Messages, HaveNamesThatEnd) {
  EXPECT_EQ(wire::attach("weights").attached_name(), "weights");
  EXPECT_EQ(wire::attach(std::string(63, 'n')).attached_name(), std::string(63, 'n'));
  EXPECT_FALSE(wire::attach("").attached_name());
  auto endless = wire::attach("n");
  endless.name.fill('n');
  EXPECT_FALSE(endless.attached_name());
  EXPECT_FALSE(wire::Ask{.kind = wire::Ask::Kind::pull}.attached_name());
}

TEST(Messages, AnnounceNoMoreThanASubscriberMakesRoomFor) {
  using wire::Head;
  EXPECT_TRUE(wire::makes_sense({.kind = Head::Kind::values, .version = 1}));
  EXPECT_TRUE(wire::makes_sense({.kind = Head::Kind::end, .count = 2}));
  for (const Head& wrong :
       {Head{.kind = static_cast<Head::Kind>(9)}, Head{.kind = Head::Kind::end, .count = 3},
        Head{.kind = Head::Kind::values}, Head{.kind = Head::Kind::values, .version = 1, .from = 2},
        Head{.kind = Head::Kind::values, .count = 2, .version = 1, .bytes = 1},
        Head{.kind = Head::Kind::description, .count = 1, .bytes = wire::kMostSpecs + 1},
        Head{.kind = Head::Kind::unknown, .bytes = wire::kMostText + 1}})
    EXPECT_FALSE(wire::makes_sense(wrong));
}

}  // namespace
}  // namespace weft::pslib
