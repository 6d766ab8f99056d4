// The end of a connection is told though an allocation fails meanwhile.
#include <gtest/gtest.h>

#include "tests/threads/shortage/failing_allocator.hpp"
#include "tests/unit/tcp/one_end.hpp"

namespace weft::p2p::tcp {
namespace {

TEST(EndOfAConnection, IsToldWithoutMemoryForItsText) {
  bool one_failed = true;
  for (std::uint64_t first = 1; one_failed; ++first) {
    OneEnd end(1);
    end.close(0);
    tests::begin({.first = first});
    end.turn();
    const tests::Allocations allocations = tests::end_shortage();
    EXPECT_FALSE(end.broken.ok()) << "allocation " << first << " failed";
    one_failed = allocations.counted >= first;
    ASSERT_LT(first, 1000U);
    EXPECT_TRUE(one_failed || first > 1) << "nothing was allocated";
    EXPECT_TRUE(one_failed || end.broken.code() == Code::path_failed) << end.broke();
  }
}

}  // namespace
}  // namespace weft::p2p::tcp
