// Starts one executor after the other, by each way, until a start fails, and prints its error.
//   graph_starts
#include <unistd.h>

#include <array>
#include <cstdio>

#include "tests/threads/dataflow/models.hpp"
#include "weft/world.hpp"

namespace {

using namespace weft;
using namespace weft::dataflow;

/// Every rank has edges with every other.
Graph spread_over(int ranks) {
  Graph graph = training_model();
  place_at_random(graph, ranks, 20);
  return graph;
}

}  // namespace

int main() {
  constexpr std::array kWays{EdgeWay::views, EdgeWay::slots, EdgeWay::rendezvous};
  try {
    World world = World::join();
    std::printf("joined rank %d pid %d\n", world.rank(), getpid());
    std::fflush(stdout);
    const Graph graph = spread_over(world.size());
    const Kernels kernels = reference_kernels();
    for (std::size_t i = 0;; ++i) {
      const Executor executor(world, graph, kernels,
                              {.threads = 1, .way = kWays[i % kWays.size()]});
      if (i == 0) {
        std::printf("started rank %d\n", world.rank());
        std::fflush(stdout);
      }
    }
  } catch (const Error& error) {
    std::printf("graph_starts: %s\n", error.detail().text().c_str());
  }
  return 1;
}
