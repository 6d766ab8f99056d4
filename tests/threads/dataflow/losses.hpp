// The results of a training loop by each way of its edges.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {

inline constexpr std::array kWays{EdgeWay::views, EdgeWay::slots, EdgeWay::rendezvous};
inline constexpr int kLossSteps = 5;

/// Runs a body on some ranks.
using RunRanks = std::function<void(int ranks, const std::function<void(World&)>&)>;

/// The fetches of all ranks in some steps of the training loop, whose nodes are placed at random.
inline std::string losses_by(EdgeWay way, SentMemory sent, int ranks, const RunRanks& run) {
  std::string bytes;
  run(ranks, [&](World& world) {
    Graph graph = training_model();
    place_at_random(graph, ranks, 17 + std::uint64_t(ranks));
    Executor executor(world, graph, reference_kernels(),
                      {.threads = ranks % 2, .sent = sent, .way = way});
    start_variables(executor, world.rank());
    for (int step = 0; step < kLossSteps; ++step)
      for (const auto& [name, loss] : executor.run(feeds_of(executor, world.rank(), step)).value())
        bytes.append(reinterpret_cast<const char*>(loss.data()), loss.bytes());
  });
  return bytes;
}

}  // namespace weft::dataflow
