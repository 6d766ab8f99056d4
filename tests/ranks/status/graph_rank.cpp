// Ranks that run the steps of a graph until they are killed; each sends to the next: graph_rank
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "weft/executor.hpp"
#include "weft/world.hpp"

namespace {

using namespace weft;
using namespace weft::dataflow;

void doubled(KernelCall& call) {
  const auto from = call.input(0).as<float>();
  const auto to = call.output(0).as<float>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = 2 * from[i];
}

Graph chain(int ranks) {
  Graph graph;
  TensorId at = graph.feed("x", DType::f32, {1000});
  for (int rank = 0; rank < ranks; ++rank) {
    graph.place_next({rank});
    at = graph.add("weft.Scale", {at}, {{"factor", 2.0}}, "y" + std::to_string(rank));
  }
  graph.place(0, {0});
  graph.fetch(at, "out");
  return graph;
}

}  // namespace

int main() {
  World world = World::join();
  Kernels kernels;
  kernels.add("weft.Scale", doubled);
  Executor executor(world, chain(world.size()), kernels, {.name = "chain"});
  Tensors feeds;
  if (world.rank() == 0) feeds["x"] = executor.feed("x");
  std::printf("joined rank %d pid %d\n", world.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
  for (const auto end = Deadline::after(std::chrono::seconds(60)); !end.passed();)
    if (!executor.run(feeds).ok()) return 3;
  return 0;
}
