// The results of a training loop by each way of its edges.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {

inline constexpr std::array kWays{EdgeWay::views, EdgeWay::slots, EdgeWay::rendezvous};
inline constexpr std::array kSentMemories{SentMemory::arena, SentMemory::traced,
                                          SentMemory::registered, SentMemory::plain};
inline constexpr int kLossSteps = 5;

/// Runs a body on some ranks.
using RunRanks = std::function<void(int ranks, const std::function<void(World&)>&)>;

inline RunRanks run_by(const char* fabric) {
  return [fabric](int ranks, const auto& body) {
    tests::run_on(ranks, tests::settings().with(Setting::fabric, fabric), body);
  };
}

/// How the training loop runs.
struct Loop {
  int ranks = 1;
  EdgeWay way = EdgeWay::views;
  SentMemory sent = SentMemory::arena;
  int threads = 0;

  std::string text() const {
    return std::to_string(ranks) + " ranks, way " + std::to_string(int(way)) + ", memory " +
           std::to_string(int(sent)) + ", " + std::to_string(threads) + " threads";
  }
};

/// The fetches of all ranks in some steps of the training loop, whose nodes are placed at random.
inline std::string losses_by(const Loop& loop, const RunRanks& run) {
  std::string bytes;
  run(loop.ranks, [&](World& world) {
    Graph graph = training_model();
    place_at_random(graph, loop.ranks, 17 + std::uint64_t(loop.ranks));
    Executor executor(world, graph, reference_kernels(),
                      {.threads = loop.threads, .sent = loop.sent, .way = loop.way});
    start_variables(executor, world.rank());
    for (int step = 0; step < kLossSteps; ++step)
      for (const auto& [name, loss] : executor.run(feeds_of(executor, world.rank(), step)).value())
        bytes.append(reinterpret_cast<const char*>(loss.data()), loss.bytes());
  });
  return bytes;
}

/// The same with as many threads as ranks modulo 2.
inline std::string losses_by(EdgeWay way, SentMemory sent, int ranks, const RunRanks& run) {
  return losses_by({.ranks = ranks, .way = way, .sent = sent, .threads = ranks % 2}, run);
}

/// The losses on one rank without threads, which all others must equal.
inline std::string losses_of_one_rank() {
  return losses_by({.ranks = 1}, [](int ranks, const auto& body) { tests::run_on(ranks, body); });
}

}  // namespace weft::dataflow
