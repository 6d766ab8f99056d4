// Every kernel and gradient kernel beside the reference.
#include <gtest/gtest.h>

#include <set>

#include "tests/seeds.hpp"
#include "tests/unit/operators/compared.hpp"
#include "tests/unit/operators/random_cases.hpp"

namespace weft::dataflow {
namespace {

TEST(Operators, HaveAKernelForEveryDefinitionThatNeedsOne) {
  // The executor runs these itself; the last two are aliases.
  const std::set<std::string> none = {"weft.Feed",     "weft.Variable",    "weft.Fetch",
                                      "weft.Assign",   "weft.RdmaSend",    "weft.RdmaSendDyn",
                                      "weft.RdmaRecv", "weft.RdmaRecvDyn", "weft.Publish",
                                      "weft.View",     "Reshape",          "weft.ReshapeLike"};
  const Kernels kernels = operators();
  for (const std::string& name : Definitions::standard().names())
    EXPECT_EQ(kernels.find(name) == nullptr, none.contains(name)) << name;
}

TEST(Operators, ComputeWhatTheReferenceComputes) {
  std::uint64_t seed = 1;
  for (const reference::Case& one : reference::differentiable_cases()) {
    compare_case(one, seed++);
    if (HasFatalFailure()) return;
  }
}

TEST(Operators, ComputeWhatTheReferenceComputesForRandomShapes) {
  for (std::uint64_t seed = 1; seed <= tests::seeds(60); ++seed)
    for (const reference::Case& one : random_cases(seed)) {
      compare_case(one, seed);
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace weft::dataflow
