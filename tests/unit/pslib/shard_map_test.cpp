#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "pslib/table/layout.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {
namespace {

constexpr int kCases = 300;

struct Case {
  std::vector<TensorSpec> specs;
  std::vector<int> servers;
  std::size_t split_bytes = 0;
};

Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Case made;
  const std::int64_t tensors = between(1, 40);
  for (std::int64_t i = 0; i < tensors; ++i) {
    const std::int64_t elements = between(0, 3) == 0 ? between(1, 40'000) : between(1, 300);
    made.specs.push_back({"t" + std::to_string(i), Shape{elements}});
  }
  const std::int64_t servers = between(1, 9);
  for (int rank = 0; rank < servers; ++rank) made.servers.push_back(rank * 2 + 1);
  std::ranges::shuffle(made.servers, random);
  made.split_bytes = static_cast<std::size_t>(1) << between(2, 20);
  return made;
}

std::vector<ShardPiece> place(const Case& of) {
  return pslib::make_shard_map(of.specs, of.servers, of.split_bytes);
}

bool is_split(const Case& of, std::size_t tensor) {
  const auto elements = static_cast<std::size_t>(of.specs[tensor].shape.elements());
  return elements * sizeof(float) >= of.split_bytes;
}

// Runs `property(case, pieces)` on many random tables.
template <typename Property>
void for_random_tables(const Property& property) {
  for (unsigned seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case made = random_case(seed);
    property(made, place(made));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Placement, PutsEveryElementOnExactlyOneShard) {
  for_random_tables([](const Case& made, const std::vector<ShardPiece>& pieces) {
    std::vector<std::int64_t> next(made.specs.size(), 0);
    for (const ShardPiece& piece : pieces) {
      ASSERT_GT(piece.count, 0);
      ASSERT_EQ(piece.first, next[piece.tensor]) << "tensor " << piece.tensor;
      next[piece.tensor] += piece.count;
      ASSERT_TRUE(std::ranges::count(made.servers, piece.server) == 1) << piece.server;
    }
    for (std::size_t i = 0; i < next.size(); ++i)
      ASSERT_EQ(next[i], made.specs[i].shape.elements()) << "tensor " << i;
  });
}

TEST(Placement, GivesPiecesCacheLinesOfTheirOwn) {
  for_random_tables([](const Case& made, const std::vector<ShardPiece>& pieces) {
    for (const int server : made.servers) {
      std::int64_t end = 0;
      for (const ShardPiece& piece : pieces) {
        if (piece.server != server) continue;
        ASSERT_EQ(piece.shard_offset, end) << "neither gaps nor overlaps";
        ASSERT_EQ(piece.first % kLineElements, 0);
        end += padded(piece.count);
      }
      ASSERT_EQ(region_elements(pieces, server), std::max(end, kLineElements));
    }
  });
}

TEST(Placement, KeepsShardsLevelWithinOneWholeTensor) {
  for_random_tables([](const Case& made, const std::vector<ShardPiece>& pieces) {
    std::map<int, std::int64_t> load;
    for (const int server : made.servers) load[server] = 0;
    for (const ShardPiece& piece : pieces) load[piece.server] += padded(piece.count);
    std::int64_t largest_whole = kLineElements;
    for (std::size_t i = 0; i < made.specs.size(); ++i)
      if (!is_split(made, i))
        largest_whole = std::max(largest_whole, padded(made.specs[i].shape.elements()));
    const auto by_load = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [least, most] = std::ranges::minmax_element(load, by_load);
    EXPECT_LE(most->second - least->second, largest_whole);
  });
}

TEST(Placement, SplitsLargeTensorsEvenlyAndKeepsSmallOnesWhole) {
  for_random_tables([](const Case& made, const std::vector<ShardPiece>& pieces) {
    for (std::size_t tensor = 0; tensor < made.specs.size(); ++tensor) {
      std::vector<std::int64_t> lines;
      for (const ShardPiece& piece : pieces)
        if (piece.tensor == tensor) lines.push_back(lines_of(piece.count));
      const auto shards = static_cast<std::int64_t>(made.servers.size());
      const std::int64_t all = lines_of(made.specs[tensor].shape.elements());
      const std::int64_t expected = is_split(made, tensor) ? std::min(shards, all) : 1;
      ASSERT_EQ(static_cast<std::int64_t>(lines.size()), expected) << "tensor " << tensor;
      ASSERT_LE(std::ranges::max(lines) - std::ranges::min(lines), 1) << "tensor " << tensor;
    }
  });
}

TEST(Placement, IsAPureFunction) {
  for_random_tables([](const Case& made, const std::vector<ShardPiece>& pieces) {
    const std::vector<ShardPiece> again = place(made);
    ASSERT_EQ(again.size(), pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ(again[i].tensor, pieces[i].tensor);
      EXPECT_EQ(again[i].server, pieces[i].server);
      EXPECT_EQ(again[i].first, pieces[i].first);
      EXPECT_EQ(again[i].shard_offset, pieces[i].shard_offset);
    }
  });
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
