// Random graphs in executors on simulated ranks: whatever a fabric may do, the bits are those of
// one rank; where ranks die, the others' steps end with an error that names a rank.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "p2p/transport/sim/random.hpp"
#include "tests/sim/fresh_seeds.hpp"
#include "tests/threads/dataflow/reference_kernels.hpp"
#include "tests/unit/dataflow/random_graph.hpp"

namespace weft::tests {
namespace {

using dataflow::Executor;
using dataflow::Node;
using dataflow::RandomGraph;
using dataflow::SentMemory;
using dataflow::Tensors;

constexpr int kSteps = 4;

struct Seen {
  std::size_t right = 0;  ///< fetched tensors
  int lost = 0;           ///< ranks whose step ended with a loss
  int deaths = 0;         ///< graphs in which a rank died
};

/// One seed's job: the graph, its placement, and the bits of each fetched tensor.
class GraphJob {
 public:
  GraphJob(std::uint64_t seed, int ranks) : seed_(seed), graph_(seed) {
    RandomGraph alone(seed);
    alone.place(1, false);
    expected_ =
        dataflow::reference::interpret(partition(alone.graph(), {}), alone.run(kSteps, seed));
    graph_.place(ranks, seed % 7 == 0);
  }

  const dataflow::reference::Fetched& expected() const { return expected_; }

  /// Runs the steps of one rank. Throws Error.
  void run(World& world, Seen& seen) {
    const dataflow::reference::Run run = graph_.run(kSteps, seed_);
    Executor executor(world, graph_.graph(), dataflow::reference_kernels(run.own, seed_ % 5 == 0),
                      {.sent = static_cast<SentMemory>(seed_ / 3 % 4)});
    const auto& nodes = executor.plan().parts[std::size_t(world.rank())].graph.nodes();
    for (const Node& node : nodes)
      if (node.definition->name == "weft.Variable")
        dataflow::reference::write_into(run.variable(node), executor.variable(node.name));
    for (int step = 0; step < kSteps; ++step) {
      Tensors feeds;
      for (const Node& node : nodes) {
        if (node.definition->name != "weft.Feed") continue;
        const dataflow::reference::Array value = run.feed(node, step);
        feeds[node.name] = executor.feed(node.name, Shape(value.sizes));
        dataflow::reference::write_into(value, feeds[node.name]);
      }
      for (const auto& [name, tensor] : executor.run(feeds).value()) {
        const auto& right = expected_.at(name + "#" + std::to_string(step));
        const bool is_right =
            tensor.bytes() == right.size() * sizeof(double) &&
            (right.empty() || std::memcmp(tensor.data(), right.data(), tensor.bytes()) == 0);
        if (!is_right) throw std::runtime_error(name + " is wrong in step " + std::to_string(step));
        ++seen.right;
      }
    }
  }

 private:
  const std::uint64_t seed_;
  RandomGraph graph_;
  dataflow::reference::Fetched expected_;
};

bool is_loss(const Status& status) {
  return (status.code() == Code::peer_failed || status.code() == Code::peer_left ||
          status.code() == Code::closed) &&
         status.detail().peer >= 0;
}

/// Its ranks' failures that are no loss, if `kills` ranks die.
void play(std::uint64_t seed, int kills, Seen& seen) {
  p2p::sim::Random random(seed);
  SimOptions options{.seed = seed};
  options.faults = drawn_faults(random);
  options.faults.kills = kills;
  options.faults.kill_after = 40;
  options.faults.kill_within = 150;
  const int ranks = static_cast<int>(2 + seed % 4);
  GraphJob graph(seed, ranks);
  Seen own;
  SimJob job(ranks, options, simulated_settings());
  const SimOutcome outcome = job.run([&](World& world) {
    try {
      graph.run(world, own);
      job.sleep(world, std::chrono::seconds(1));  // others may still need what this rank sent
    } catch (const Error& error) {
      if (kills == 0 || !is_loss(error.status())) throw;
      ++own.lost;
    }
  });
  if (outcome.killed.empty()) {
    EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
    EXPECT_EQ(own.right, graph.expected().size()) << outcome.text;
  } else {
    ++seen.deaths;
    // A rank that dies may keep others from joining, too.
    for (const std::string& failure : outcome.failures)
      EXPECT_NE(failure.find("join"), std::string::npos) << outcome.text << ": " << failure;
  }
  seen.right += own.right;
  seen.lost += own.lost;
}

TEST(SimulatedGraphs, GiveTheBitsOfOneRankWhateverAFabricMayDo) {
  Seen seen;
  for_fresh_seeds(300, 5'000, [&](std::uint64_t seed) {
    if (!HasFailure()) play(seed, 0, seen);
  });
  EXPECT_GT(seen.right, 0U);
}

TEST(SimulatedGraphs, EndWithARanksNameWhereRanksDie) {
  Seen seen;
  for_fresh_seeds(300, 5'000, [&](std::uint64_t seed) {
    if (!HasFailure()) play(seed, 1 + static_cast<int>(seed % 2), seen);
  });
  if (std::getenv("WEFT_TEST_SEED") != nullptr) return;
  std::cout << seen.deaths << " graphs with deaths, " << seen.lost << " ranks that lost another\n";
  EXPECT_GT(seen.deaths, 50);
  EXPECT_GT(seen.lost, 50);
}

}  // namespace
}  // namespace weft::tests
