// A rank of an experiment, by weft's own ways.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

#include "benchmarks/harness/keep_memory.hpp"
#include "benchmarks/workloads/rpc_way.hpp"
#include "benchmarks/workloads/training_run.hpp"
#include "runtime/dataflow/execute/executor_access.hpp"

namespace weft::bench {
namespace {

using dataflow::EdgeWay;
using dataflow::SentMemory;

/// One thread beside the one that calls: while a layer computes, tensors go on and others'
/// gradients are added up.
dataflow::Executor trainer(World& world, ReplayedTraining& training, const std::string& name,
                           std::string_view way) {
  dataflow::ExecutorOptions options{.name = name, .threads = 1, .way = EdgeWay::slots};
  if (way == kViewsWay) options.way = EdgeWay::views;
  if (way == kRendezvousWay) options.way = EdgeWay::rendezvous;
  if (way == kCopiedWay) options.sent = SentMemory::plain;
  if (way == kTracedWay) options.sent = SentMemory::traced;
  if (way == kRegisteredWay) options.sent = SentMemory::registered;
  dataflow::Kernels kernels = training.kernels(world.rank());
  if (way != kRpcWay) return {world, training.graph(), std::move(kernels), options};
  return dataflow::ExecutorAccess::make(
      world, training.graph(), std::move(kernels), options,
      [](World& on, const dataflow::Plan&) { return make_rpc_way(on); });
}

}  // namespace

int train(const TrainingOptions& options) try {
  keep_freed_memory();  // as frameworks do, which matters where tensors lie in plain memory
  World world = World::join();
  if (world.size() != options.ranks)
    throw std::runtime_error(
        fmt::format("this run needs {0} ranks, here are {1}; start it with mpirun -n {0}",
                    options.ranks, world.size()));
  const auto rows = measure_training(world, options, trainer);
  if (world.rank() == 0) fmt::print("{}\n", to_line(rows));
  std::fflush(stdout);
  world.leave().or_throw();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "weft-bench: {}\n", error.what());
  return 1;
}

}  // namespace weft::bench
