// Random graphs, run by executors on several ranks, give the bits of the reference interpreter on
// one.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "tests/seeds.hpp"
#include "tests/threads/dataflow/models.hpp"
#include "tests/unit/dataflow/random_graph.hpp"

namespace weft::dataflow {
namespace {

constexpr std::uint64_t kGraphs = tests::seeds(60);  // for each case
constexpr int kSteps = 3;

struct Case {
  const char* fabric;
  int ranks;
  /// A credit-free edge whose reader is overtaken is an error of the step.
  bool checks_flow = false;
};

struct Expected {
  std::uint64_t seed = 0;
  reference::Fetched fetched;
  std::atomic<std::size_t> seen{0};
};

class RandomGraphs : public testing::TestWithParam<Case> {};

void place_for(RandomGraph& random, std::uint64_t seed, int ranks) {
  random.place(ranks, seed % 7 == 0);
}

void run_graph(World& world, Expected& expected) {
  const std::uint64_t seed = expected.seed;
  RandomGraph random(seed);
  place_for(random, seed, world.size());
  const reference::Run run = random.run(kSteps, seed);
  Executor executor(world, random.graph(), reference_kernels(run.own, seed % 5 == 0),
                    {.name = std::to_string(seed),
                     .threads = int(seed % 3),
                     .sent = static_cast<SentMemory>(seed / 3 % 4)});
  const auto& nodes = executor.plan().parts[std::size_t(world.rank())].graph.nodes();
  for (const Node& node : nodes)
    if (node.definition->name == "weft.Variable")
      reference::write_into(run.variable(node), executor.variable(node.name));
  for (int step = 0; step < kSteps; ++step) {
    Tensors feeds;
    for (const Node& node : nodes) {
      if (node.definition->name != "weft.Feed") continue;
      const reference::Array value = run.feed(node, step);
      feeds[node.name] = executor.feed(node.name, Shape(value.sizes));
      reference::write_into(value, feeds[node.name]);
    }
    const auto fetched = executor.run(feeds);
    ASSERT_TRUE(fetched.ok()) << "rank " << world.rank() << ", step " << step << ": "
                              << fetched.status().text() << "\n"
                              << executor.plan().text();
    for (const auto& [name, tensor] : *fetched) {
      const auto& right = expected.fetched.at(name + "#" + std::to_string(step));
      ASSERT_EQ(tensor.bytes(), right.size() * sizeof(double)) << name;
      if (!right.empty()) {
        ASSERT_EQ(std::memcmp(tensor.data(), right.data(), tensor.bytes()), 0)
            << name << " in step " << step << "\n"
            << executor.plan().text();
      }
      ++expected.seen;
    }
  }
}

TEST_P(RandomGraphs, GiveTheBitsOfOneRank) {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const std::uint64_t first =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << kGraphs << " seeds from " << first << " on\n";
  std::vector<Expected> expected(kGraphs);
  for (std::uint64_t i = 0; i < kGraphs; ++i) {
    expected[i].seed = first + i;
    RandomGraph random(first + i);
    random.place(1, false);
    expected[i].fetched =
        reference::interpret(partition(random.graph(), {}), random.run(kSteps, first + i));
  }
  Config config = tests::settings().with(Setting::fabric, GetParam().fabric);
  if (GetParam().checks_flow) config = config.with(Setting::check, "flow");
  run_on_fabric(GetParam().ranks, config, [&](World& world) {
    for (Expected& one : expected) {
      SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(one.seed));
      run_graph(world, one);
      if (HasFatalFailure()) return;
    }
  });
  for (const Expected& one : expected) EXPECT_EQ(one.seen, one.fetched.size()) << one.seed;
}

INSTANTIATE_TEST_SUITE_P(Executor, RandomGraphs,
                         testing::Values(Case{"shm", 2}, Case{"shm", 3}, Case{"shm", 4},
                                         Case{"tcp", 2}, Case{"tcp", 4}, Case{"shm", 3, true},
                                         Case{"tcp", 2, true}, Case{"tcp", 4, true},
                                         Case{"verbs", 3}),
                         [](const auto& info) {
                           return info.param.fabric + std::to_string(info.param.ranks) +
                                  (info.param.checks_flow ? "_checked" : "");
                         });

}  // namespace
}  // namespace weft::dataflow
