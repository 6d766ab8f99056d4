// Terms that two ends agree on.
#include "p2p/transport/tcp/terms.hpp"

#include <gtest/gtest.h>

namespace weft::p2p::tcp {
namespace {

TEST(Terms, AreTheFewerRailsAndWhatEitherAsksFor) {
  const Terms one{.rails = 3, .checksums = 1};
  const Terms other{.rails = 1, .encrypts = 1};
  for (const Terms& both : {one.agreed(other, 4), other.agreed(one, 0)}) {
    EXPECT_EQ(both.rails, 1);
    EXPECT_EQ(both.checksums, 1);
    EXPECT_EQ(both.encrypts, 1);
    EXPECT_EQ(both.by_networks, 0);
  }
  EXPECT_EQ(one.agreed(one, 0).rails, 3) << "asked for by both, whatever the networks";
}

TEST(Terms, AreNotMoreRailsThanSharedNetworksIfEitherLeavesItToThem) {
  const Terms asks{.rails = 3};
  const Terms leaves{.rails = 4, .by_networks = 1};
  for (const std::size_t shared : {0U, 1U, 2U, 3U, 4U}) {
    const auto expected = std::max<std::size_t>(shared, 1);
    EXPECT_EQ(leaves.agreed(leaves, shared).rails, expected);
    EXPECT_EQ(leaves.agreed(asks, shared).rails, std::min<std::size_t>(expected, 3));
    EXPECT_EQ(asks.agreed(leaves, shared).rails, std::min<std::size_t>(expected, 3));
    EXPECT_EQ(asks.agreed(leaves, shared).by_networks, 1);
  }
}

TEST(Terms, OfAnotherSizeOrKindAreNone) {
  const Terms terms{.rails = 2};
  const auto bytes = std::as_bytes(std::span(&terms, 1));
  ASSERT_TRUE(Terms::parse(bytes));
  EXPECT_EQ(Terms::parse(bytes)->rails, 2);
  EXPECT_FALSE(Terms::parse(bytes.first(bytes.size() - 1)));
  EXPECT_FALSE(Terms::parse(bytes.first(8)));
  Terms wrong = terms;
  wrong.type ^= 1;
  EXPECT_FALSE(Terms::parse(std::as_bytes(std::span(&wrong, 1))));
  wrong = {.rails = 0};
  EXPECT_FALSE(Terms::parse(std::as_bytes(std::span(&wrong, 1))));
}

}  // namespace
}  // namespace weft::p2p::tcp
