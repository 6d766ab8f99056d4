// Random graphs, run by executors on several ranks, give the bits of the reference interpreter on
// one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <iostream>
#include <random>

#include "tests/seeds.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/dataflow/random_steps.hpp"

namespace weft::dataflow {
namespace {

constexpr std::uint64_t kGraphs = tests::seeds(60);  // for each case

struct Case {
  const char* fabric;
  int ranks;
  /// A credit-free edge whose reader is overtaken is an error of the step.
  bool checks_flow = false;
  EdgeWay way = EdgeWay::views;
};

class RandomGraphs : public testing::TestWithParam<Case> {};

TEST_P(RandomGraphs, GiveTheBitsOfOneRank) {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const std::uint64_t first =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << kGraphs << " seeds from " << first << " on\n";
  std::deque<RandomSteps> graphs;
  for (std::uint64_t i = 0; i < kGraphs; ++i) graphs.emplace_back(first + i);
  Config config = tests::settings().with(Setting::fabric, GetParam().fabric);
  if (GetParam().checks_flow) config = config.with(Setting::check, "flow");
  tests::run_on(GetParam().ranks, config, [&](World& world) {
    for (std::uint64_t i = 0; i < kGraphs; ++i) {
      SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(first + i));
      graphs[i].run(world, GetParam().way);
    }
  });
  for (std::uint64_t i = 0; i < kGraphs; ++i) EXPECT_TRUE(graphs[i].is_complete()) << first + i;
}

INSTANTIATE_TEST_SUITE_P(Executor, RandomGraphs,
                         testing::Values(Case{"shm", 2}, Case{"shm", 3}, Case{"shm", 4},
                                         Case{"tcp", 2}, Case{"tcp", 4}, Case{"shm", 3, true},
                                         Case{"tcp", 2, true}, Case{"tcp", 4, true},
                                         Case{"shm", 3, false, EdgeWay::slots},
                                         Case{"shm", 3, true, EdgeWay::slots},
                                         Case{"shm", 2, false, EdgeWay::rendezvous},
                                         Case{"shm", 4, false, EdgeWay::rendezvous},
                                         Case{"tcp", 3, false, EdgeWay::rendezvous}),
                         [](const auto& info) {
                           return info.param.fabric + std::to_string(info.param.ranks) +
                                  (info.param.way == EdgeWay::slots        ? "_slots"
                                   : info.param.way == EdgeWay::rendezvous ? "_rendezvous"
                                                                           : "") +
                                  (info.param.checks_flow ? "_checked" : "");
                         });

}  // namespace
}  // namespace weft::dataflow
