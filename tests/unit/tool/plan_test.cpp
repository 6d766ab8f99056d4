// A seed decides the faults of weft-chaos, within the user's options.
#include "runtime/tool/chaos/plan.hpp"

#include <gtest/gtest.h>

#include <set>

namespace weft::tool {
namespace {

PlanOptions options(std::uint64_t seed) {
  PlanOptions wanted;
  wanted.seed = seed;
  wanted.faults = {Fault::kill, Fault::stop, Fault::slow};
  wanted.size = 8;
  wanted.count = 20;
  wanted.after_s = 2;
  wanted.within_s = 9;
  return wanted;
}

std::string all(const std::vector<Step>& plan) {
  std::string lines;
  for (const Step& step : plan) lines += text(step) + '\n';
  return lines;
}

TEST(Plan, FollowsFromItsSeed) {
  EXPECT_EQ(all(make_plan(options(7))), all(make_plan(options(7))));
  EXPECT_NE(all(make_plan(options(7))), all(make_plan(options(8))));
  auto one = options(7);
  one.count = 1;
  // The same on every machine: users rely on that when they report a seed.
  EXPECT_EQ(all(make_plan(one)), "at 2.489 s: kill rank 6\n");
}

TEST(Plan, KeepsWithinWhatWasAskedFor) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto wanted = options(seed);
    wanted.ranks = {1, 4};
    std::set<int> killed;
    double before = 0;
    for (const Step& step : make_plan(wanted)) {
      EXPECT_GE(step.at_s, before);
      before = step.at_s;
      EXPECT_GE(step.at_s, 2);
      EXPECT_LE(step.at_s, 9.001);
      EXPECT_TRUE(step.rank == 1 || step.rank == 4);
      EXPECT_EQ(step.for_s == 0, step.fault == Fault::kill);
      if (step.fault == Fault::kill) {
        EXPECT_TRUE(killed.insert(step.rank).second);
      }
    }
  }
}

}  // namespace
}  // namespace weft::tool
