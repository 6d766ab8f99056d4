// Where a table's elements lie: on which servers, and where in the shard of each.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "pslib/table/layout.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {
namespace {

/// A table of vectors.
struct Case {
  std::vector<std::int64_t> sizes;
  std::vector<int> servers;
  std::size_t split_bytes = 0;

  std::vector<ShardPiece> place() const {
    std::vector<TensorSpec> specs;
    for (const std::int64_t size : sizes)
      specs.push_back({"t" + std::to_string(specs.size()), Shape{size}});
    return make_shard_map(specs, servers, split_bytes);
  }
  bool is_split(std::size_t tensor) const {
    return static_cast<std::size_t>(sizes[tensor]) * sizeof(float) >= split_bytes;
  }
};

void showValue(const Case& made, std::ostream& out) {
  out << "tensors of ";
  rc::show(made.sizes, out);
  out << " elements, servers ";
  rc::show(made.servers, out);
  out << ", split from " << made.split_bytes << " bytes";
}

template <typename T>
rc::Gen<T> between(T low, T high) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}

/// Up to 40 tensors, a fourth of them large, on up to 9 servers.
rc::Gen<Case> any_case() {
  using Size = std::int64_t;
  const auto size =
      rc::gen::weightedOneOf<Size>({{3, between<Size>(1, 300)}, {1, between<Size>(1, 40'000)}});
  const auto sizes =
      rc::gen::resize(40, rc::gen::nonEmpty(rc::gen::container<std::vector<Size>>(size)));
  const auto servers =
      rc::gen::resize(9, rc::gen::nonEmpty(rc::gen::unique<std::vector<int>>(between(0, 99))));
  const auto split_bytes =
      rc::gen::map(between(2, 20), [](int power) { return std::size_t{1} << unsigned(power); });
  return rc::gen::build<Case>(rc::gen::set(&Case::sizes, sizes),
                              rc::gen::set(&Case::servers, servers),
                              rc::gen::set(&Case::split_bytes, split_bytes));
}

RC_GTEST_PROP(Placement, PutsEveryElementOnExactlyOneShard, ()) {
  const Case made = *any_case();
  std::vector<std::int64_t> next(made.sizes.size(), 0);
  for (const ShardPiece& piece : made.place()) {
    RC_ASSERT(piece.count > 0);
    RC_ASSERT(piece.first == next[piece.tensor]);
    next[piece.tensor] += piece.count;
    RC_ASSERT(std::ranges::count(made.servers, piece.server) == 1);
  }
  RC_ASSERT(next == made.sizes);
}

RC_GTEST_PROP(Placement, GivesPiecesCacheLinesOfTheirOwn, ()) {
  const Case made = *any_case();
  const std::vector<ShardPiece> pieces = made.place();
  for (const int server : made.servers) {
    std::int64_t end = 0;
    for (const ShardPiece& piece : pieces) {
      if (piece.server != server) continue;
      RC_ASSERT(piece.shard_offset == end);  // neither gaps nor overlaps
      RC_ASSERT(piece.first % kLineElements == 0);
      end += padded(piece.count);
    }
    RC_ASSERT(region_elements(pieces, server) == std::max(end, kLineElements));
  }
}

RC_GTEST_PROP(Placement, KeepsShardsLevelWithinOneWholeTensor, ()) {
  const Case made = *any_case();
  std::map<int, std::int64_t> load;
  for (const int server : made.servers) load[server] = 0;
  for (const ShardPiece& piece : made.place()) load[piece.server] += padded(piece.count);
  std::int64_t largest_whole = kLineElements;
  for (std::size_t i = 0; i < made.sizes.size(); ++i)
    if (!made.is_split(i)) largest_whole = std::max(largest_whole, padded(made.sizes[i]));
  const auto by_load = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::ranges::minmax_element(load, by_load);
  RC_ASSERT(most->second - least->second <= largest_whole);
}

RC_GTEST_PROP(Placement, SplitsLargeTensorsEvenlyAndKeepsSmallOnesWhole, ()) {
  const Case made = *any_case();
  const std::vector<ShardPiece> pieces = made.place();
  for (std::size_t tensor = 0; tensor < made.sizes.size(); ++tensor) {
    std::vector<std::int64_t> lines;
    for (const ShardPiece& piece : pieces)
      if (piece.tensor == tensor) lines.push_back(lines_of(piece.count));
    const auto shards = static_cast<std::int64_t>(made.servers.size());
    const std::int64_t all = lines_of(made.sizes[tensor]);
    const std::int64_t expected = made.is_split(tensor) ? std::min(shards, all) : 1;
    RC_ASSERT(static_cast<std::int64_t>(lines.size()) == expected);
    RC_ASSERT(std::ranges::max(lines) - std::ranges::min(lines) <= 1);
  }
}

RC_GTEST_PROP(Placement, IsAPureFunction, ()) {
  const Case made = *any_case();
  const std::vector<ShardPiece> pieces = made.place();
  const std::vector<ShardPiece> again = made.place();
  RC_ASSERT(again.size() == pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    RC_ASSERT(again[i].tensor == pieces[i].tensor);
    RC_ASSERT(again[i].server == pieces[i].server);
    RC_ASSERT(again[i].first == pieces[i].first);
    RC_ASSERT(again[i].shard_offset == pieces[i].shard_offset);
  }
}

TEST(Placement, LeavesServersWithoutPiecesWhenTensorsAreFew) {
  const std::vector<TensorSpec> specs = {{"a", Shape{3}}, {"b", Shape{}}};
  const std::vector<int> servers = {0, 1, 2, 3, 4};
  const std::vector<ShardPiece> pieces = pslib::make_shard_map(specs, servers, 64 << 10);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_NE(pieces[0].server, pieces[1].server);
  EXPECT_EQ(pieces[1].count, 1) << "a scalar is one element";
  EXPECT_EQ(region_elements(pieces, 4), kLineElements);
}

TEST(Placement, HasNoPiecesWithoutServers) {
  const std::vector<TensorSpec> specs = {{"a", Shape{3}}};
  EXPECT_TRUE(pslib::make_shard_map(specs, {}, 64).empty());
}

TEST(Layout, StartsEveryTensorOnACacheLine) {
  const std::vector<TensorSpec> specs = {{"a", Shape{1}}, {"b", Shape{4, 4}}, {"c", Shape{17}}};
  const Layout layout(specs);
  EXPECT_EQ(layout.offset(0), 0);
  EXPECT_EQ(layout.offset(1), 16);
  EXPECT_EQ(layout.offset(2), 32);
  EXPECT_EQ(layout.elements(), 64);
}

}  // namespace
}  // namespace weft::pslib
