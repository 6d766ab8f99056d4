// Ranks of one host in several NUMA nodes; the test machine need not have these nodes.
#include "runtime/collective/numa_nodes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "runtime/world/in_process.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"

namespace weft::tests {
namespace {

using detail::NumaNodes;

std::vector<int> list(std::span<const int> ranks) { return {ranks.begin(), ranks.end()}; }

TEST(NumaNodes, AreRowsOfRanksInTheGroupsOrder) {
  const std::array nodes{3, 1, 3, 1, 3, 1};
  const NumaNodes grid(nodes, 2);
  ASSERT_FALSE(grid.empty());
  EXPECT_EQ(grid.nodes(), 2);
  EXPECT_EQ(grid.mates(), 3);
  EXPECT_EQ(list(grid.row()), (std::vector{0, 2, 4}));
  EXPECT_EQ(list(grid.column()), (std::vector{2, 3}));
  EXPECT_EQ(grid.node(), 0);
  EXPECT_EQ(grid.place(), 1);
  EXPECT_EQ(grid.rank(1, 2), 5);
  EXPECT_EQ(grid.node_of(3), 1);
  EXPECT_FALSE(grid.are_branches());
}

TEST(NumaNodes, AreBranchesOfTheTreeWhereTheyAreBlocksOfAPowerOfTwo) {
  EXPECT_TRUE(NumaNodes(std::array{0, 0, 1, 1, 2, 2}, 0).are_branches());
  EXPECT_TRUE(NumaNodes(std::array{1, 1, 0, 0}, 3).are_branches());
  EXPECT_FALSE(NumaNodes(std::array{0, 0, 0, 1, 1, 1}, 0).are_branches());
  EXPECT_FALSE(NumaNodes(std::array{0, 1, 1, 0}, 0).are_branches());
}

TEST(NumaNodes, ThatAreNotSeveralRowsAlikeDontCount) {
  EXPECT_TRUE(NumaNodes(std::array{0, 0, 0, 0}, 0).empty()) << "one";
  EXPECT_TRUE(NumaNodes(std::array{0, 1, 2}, 0).empty()) << "a rank each";
  EXPECT_TRUE(NumaNodes(std::array{0, 0, 1, 1, 1}, 0).empty()) << "rows of two lengths";
  EXPECT_TRUE(NumaNodes(std::array{0, 0, 1, -1}, 0).empty()) << "a rank that is in none";
}

TEST(NumaNodes, OfASettingAreRefusedByTheirText) {
  EXPECT_EQ(detail::numa_node("off", 0), -1);
  EXPECT_EQ(detail::numa_node("0,0,12,1", 2), 12);
  const auto refusal = [](const char* setting, int place) {
    return thrown_by([&] { (void)detail::numa_node(setting, place); });
  };
  for (const char* const wrong : {"", "0,", "x", "0,-1", "0 1", "1e3"}) {
    const ErrorDetail detail = refusal(wrong, 0);
    EXPECT_EQ(detail.code, Code::bad_config) << wrong;
    EXPECT_TRUE(contains(detail.message, "is no node")) << detail.message;
  }
  const ErrorDetail few = refusal("0,1", 2);
  EXPECT_EQ(few.code, Code::bad_config);
  EXPECT_TRUE(contains(few.message, "names the nodes of 2 ranks, and this is number 3"))
      << few.message;
}

/// The sum over eight ranks, of numbers whose sum depends on the order.
std::vector<float> summed(const char* nodes, Algorithm algorithm, DType dtype) {
  constexpr std::int64_t kCount = 70'001;
  std::vector<float> sum;
  run_on(8, settings().with(Setting::numa, nodes), [&](World& world) {
    Collectives group = Collectives::open(world);
    const Tensor tensor = world.allocate(dtype, {kCount});
    std::mt19937 random(static_cast<unsigned>(world.rank()) + 1);
    std::lognormal_distribution<float> any(0, 4);
    std::vector<float> values(kCount);
    for (float& value : values) value = any(random);
    if (dtype == DType::f32)
      std::memcpy(tensor.data(), values.data(), tensor.bytes());
    else
      kernels::narrow(tensor.data(), dtype, values.data(), values.size());
    Call call = all_reduce(tensor, Reduction::sum);
    call.algorithm = algorithm;
    call.deterministic = true;
    ASSERT_TRUE(group.run(call).ok());
    if (world.rank() != 5) return;
    sum.resize(kCount);
    if (dtype == DType::f32)
      std::memcpy(sum.data(), tensor.data(), tensor.bytes());
    else
      kernels::widen(sum.data(), tensor.data(), dtype, sum.size());
  });
  return sum;
}

TEST(NumaNodes, DontChangeADeterministicSum) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto direct = summed("off", Algorithm::direct, dtype);
    ASSERT_FALSE(direct.empty());
    EXPECT_EQ(summed("0,0,0,0,1,1,1,1", Algorithm::two_level, dtype), direct);
    EXPECT_EQ(summed("0,0,1,1,2,2,3,3", Algorithm::two_level, dtype), direct);
    EXPECT_EQ(summed("0,1,0,1,0,1,0,1", Algorithm::two_level, dtype), direct)
        << "nodes that are no branches of the tree";
  }
}

TEST(NumaNodes, DontHideWhoHasLeft) {
  run_on(4, settings().with(Setting::numa, "0,0,1,1"), [&](World& world) {
    const Tensor tensor = world.allocate(DType::f32, {50'000});
    {
      Collectives group = Collectives::open(world);
      Call call = all_reduce(tensor, Reduction::sum);
      call.algorithm = Algorithm::two_level;
      ASSERT_TRUE(group.run(call).ok());
      if (world.rank() != 3) {
        const Status status = group.run(call);
        EXPECT_TRUE(tells(status, Code::peer_left, {"rank 3"}));
      }
    }
    (void)world.leave();
  });
}

}  // namespace
}  // namespace weft::tests
