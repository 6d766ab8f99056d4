// The source of an arena's pages.
#include "p2p/memory/arena.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "base/os/mapping.hpp"
#include "base/os/numa.hpp"

namespace weft::p2p {
namespace {

constexpr int kDefault = 0;    // MPOL_DEFAULT
constexpr int kPreferred = 1;  // MPOL_PREFERRED
constexpr int kBind = 2;       // MPOL_BIND

/// The kernel's policy for the memory of a new arena.
int policy_of(ArenaSort sort, int numa, std::vector<int> allowed = {}) {
  Arena arena(sort, {.chunk_bytes = 2 << 20, .numa = numa, .allowed_numa = std::move(allowed)},
              std::make_shared<SegmentMapper>());
  const Block block = arena.allocate(64);
  int policy = -1;
  constexpr unsigned long kByAddress = 2;  // MPOL_F_ADDR
  EXPECT_EQ(::syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, block.data, kByAddress), 0);
  arena.release(block);
  return policy;
}

TEST(Arena, TakesPagesOfTheNodeThatItIsGiven) {
  const auto mapping = os::Mapping::anonymous(2 << 20);
  if (!os::prefer_numa(mapping.data(), mapping.bytes(), 0))
    GTEST_SKIP() << "the kernel takes no wishes on NUMA nodes here";
  for (const ArenaSort sort : {ArenaSort::data, ArenaSort::published, ArenaSort::staging}) {
    EXPECT_EQ(policy_of(sort, 0), kPreferred);
    EXPECT_EQ(policy_of(sort, -1), kDefault);
  }
}

TEST(Arena, TakesNoPagesFromOutsideOfTheNodesThatItMayLieOn) {
  const auto mapping = os::Mapping::anonymous(2 << 20);
  if (!os::bind_numa(mapping.data(), mapping.bytes(), std::array{0}, 0))
    GTEST_SKIP() << "the kernel binds no memory here";
  for (const ArenaSort sort : {ArenaSort::data, ArenaSort::published, ArenaSort::staging}) {
    EXPECT_EQ(policy_of(sort, 0, {0}), kBind);
    EXPECT_EQ(policy_of(sort, -1, {0}), kBind);
    EXPECT_EQ(policy_of(sort, 0, {1000}), kPreferred);  // refused, as by a cpuset
  }
}

TEST(Arena, DoesWithoutANodeThatIsNotThere) {
  Arena arena(ArenaSort::data, {.chunk_bytes = 2 << 20, .numa = 1000},
              std::make_shared<SegmentMapper>());
  EXPECT_NE(arena.allocate(64).data, nullptr);
}

}  // namespace
}  // namespace weft::p2p
