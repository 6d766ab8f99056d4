// The cost of an executor's steps from step 2 on, of all ranks together.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tests/threads/dataflow/losses.hpp"

namespace weft::dataflow {

/// How the steps run, and on what.
struct CostCase {
  int ranks = 2;
  SentMemory sent = SentMemory::arena;
  EdgeWay way = EdgeWay::slots;
  RunRanks run;
  /// Called by rank 0 while no rank runs a step: before step 2, and after the last.
  std::function<void()> look{};
};

inline constexpr int kCostSteps = 10;

/// The training loop, its nodes spread over 3 ranks, so that tensors with the batch's size are cut
/// as well.
inline Graph spread_model(std::int64_t rows) {
  Graph graph = training_model(rows);
  place_at_random(graph, 3, 20);
  return graph;
}

inline std::size_t dynamic_edges(const Plan& plan) {
  return std::size_t(std::ranges::count(plan.edges, EdgeKind::dynamic, &Edge::kind));
}

/// The value of open sizes in a step.
inline std::int64_t rows_in(int step) { return 500 + step % 3; }

/// The bytes that one transfer of an edge moves in a step.
inline std::uint64_t bytes_in(const Edge& edge, int step) {
  std::uint64_t bytes = size_of(edge.type.dtype);
  for (const std::int64_t size : edge.type.shape.sizes())
    bytes *= std::uint64_t(size == kAnySize ? rows_in(step) : size);
  return bytes;
}

/// The bytes that all cut edges move in steps 2 to `steps` + 1.
inline std::uint64_t bytes_cut(const Plan& plan, int steps) {
  std::uint64_t bytes = 0;
  for (int step = 1; step <= steps; ++step)
    for (const Edge& edge : plan.edges) bytes += bytes_in(edge, step);
  return bytes;
}

inline void run_step(Executor& executor, int rank, int step) {
  Tensors feeds;
  for (const Node& node : executor.plan().parts[std::size_t(rank)].graph.nodes()) {
    if (node.definition->name != "weft.Feed") continue;
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : node.outputs[0].shape.sizes())
      sizes.push_back(size == kAnySize ? rows_in(step) : size);
    feeds[node.name] = node.outputs[0].shape.known()
                           ? executor.feed(node.name)
                           : executor.feed(node.name, Shape(std::span<const std::int64_t>(sizes)));
    fill_at_random(feeds[node.name], std::uint64_t(step));
  }
  executor.run(feeds).value();
}

struct Cost : TransferCounters {
  std::uint64_t registered_tensors = 0;  ///< TracingCounters::registrations of the executors
};

/// Runs one step, and returns what the `steps` after it cost all ranks together.
inline Cost cost_of(const Graph& graph, int steps, const CostCase& how) {
  Cost all;
  std::mutex mutex;
  tests::Meeting meeting(how.ranks);
  how.run(how.ranks, [&](World& world) {
    Executor executor(world, graph, reference_kernels(), {.sent = how.sent, .way = how.way});
    start_variables(executor, world.rank());
    const auto look = [&] {
      meeting.wait();
      const TransferCounters counters = tests::all_counters(world);
      if (world.rank() == 0 && how.look) how.look();
      meeting.wait();
      return counters;
    };
    const auto registered = [&] { return executor.report().sites.counters.registrations; };
    run_step(executor, world.rank(), 0);
    const std::uint64_t registered_before = registered();
    const TransferCounters before = look();
    for (int step = 1; step <= steps; ++step) run_step(executor, world.rank(), step);
    const TransferCounters cost = look() - before;
    const std::lock_guard lock(mutex);
    all += cost;
    all.registered_tensors += registered() - registered_before;
  });
  return all;
}

/// A writer that waits for long, since the machine holds its reader up, asks for credits. So a cost
/// with messages is measured again, twice at most.
template <typename Measure>
auto undisturbed(const Measure& measure) {
  for (int again = 2;; --again) {
    const auto cost = measure();
    if (cost.control_messages == 0 || again == 0) return cost;
  }
}

}  // namespace weft::dataflow
