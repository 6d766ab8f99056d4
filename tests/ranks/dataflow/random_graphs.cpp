// Random graphs, run by executors in ranks that are processes, give the bits of the reference
// interpreter on one rank.
//   random_graphs [GRAPHS]        WEFT_TEST_SEED: the first seed
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/ranks/checks.hpp"
#include "tests/threads/dataflow/random_steps.hpp"
#include "weft/collective.hpp"

namespace {

using namespace weft;
using weft::dataflow::EdgeWay;
using weft::dataflow::RandomSteps;
using weft::tests::Checks;

constexpr std::array kWays{EdgeWay::views, EdgeWay::slots, EdgeWay::rendezvous};

/// Rank 0's seed, on every rank.
std::uint64_t first_seed(World& world, Collectives& ranks) {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const Tensor seed = world.allocate(DType::i64, {1});
  seed.as<std::int64_t>()[0] =
      given != nullptr ? std::strtoll(given, nullptr, 10) : std::random_device()();
  ranks.run(broadcast(seed, 0)).or_throw();
  return static_cast<std::uint64_t>(seed.as<std::int64_t>()[0]);
}

void run(World& world, Checks& checks, std::uint64_t graphs) {
  Collectives ranks = Collectives::open(world);
  const std::uint64_t first = first_seed(world, ranks);
  if (world.rank() == 0)
    std::printf("%llu seeds from %llu on\n", static_cast<unsigned long long>(graphs),
                static_cast<unsigned long long>(first));
  const Tensor right = world.allocate(DType::i64, {1});
  for (std::uint64_t seed = first; seed < first + graphs; ++seed) {
    RandomSteps graph(seed);
    graph.run(world, kWays[seed % kWays.size()]);
    right.as<std::int64_t>()[0] = static_cast<std::int64_t>(graph.right());
    ranks.run(all_reduce(right, Reduction::sum)).or_throw();
    checks.expect(right.as<std::int64_t>()[0] == static_cast<std::int64_t>(graph.wanted()),
                  "WEFT_TEST_SEED=" + std::to_string(seed) + ": not all tensors were fetched");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t graphs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 60;
  return weft::tests::run_as_rank(
      [graphs](World& world, Checks& checks) { run(world, checks, graphs); });
}
