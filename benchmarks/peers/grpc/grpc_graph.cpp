#include "benchmarks/peers/grpc/grpc_graph.hpp"

#include <stdexcept>

#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/graph_replay.hpp"
#include "benchmarks/workloads/training_run.hpp"

namespace weft::bench {
namespace {

double microseconds_per_step(World& world, const dataflow::MakeWay& way, const Model& model,
                             const RunOptions& options) {
  GraphReplay replay(model);
  dataflow::Executor executor = dataflow::ExecutorAccess::make(
      world, replay.graph(), replay.kernels(world.rank()),
      {.name = std::string(model.name), .way = dataflow::EdgeWay::slots}, way);
  const std::uint64_t steps = replayed_steps(model.bytes(), options.budget.count());
  for (std::uint64_t i = 0; i < kReplayWarmUp; ++i) replay.step(executor);
  const double spent = timed([&] {
    for (std::uint64_t i = 0; i < steps; ++i) replay.step(executor);
  });
  if (options.check) replay.check(executor, world.rank());
  return spent / static_cast<double>(steps);
}

}  // namespace

void run_graphs_over_grpc(const std::string& place, EdgeService& service, const Connect& connect,
                          int ranks, const GraphJob& job) {
  World world = World::join();
  const std::string needed = std::to_string(ranks);
  if (world.size() != ranks)
    throw std::runtime_error("a run needs " + needed + " ranks; start it with -n " + needed);
  {
    EdgeCalls calls(world, place, service, connect);
    job(world, calls.way());
  }
  world.leave().or_throw();
}

std::vector<RunRow> replay_graph_over_grpc(World& world, const dataflow::MakeWay& way,
                                           const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t bytes : options.sizes) {
    const Model& model = model_of(bytes);
    const double spent = microseconds_per_step(world, way, model, options);
    // The same figure stands beside each of weft's ways.
    for (const std::string_view kind : kKindsOfEdge)
      rows.push_back(
          {bytes, std::string(model.name) + "." + std::string(kind), {{"sendrecv", spent}}, {}});
  }
  return world.rank() == 0 ? rows : std::vector<RunRow>{};
}

std::vector<RunRow> train_over_grpc(World& world, const dataflow::MakeWay& way,
                                    const TrainingOptions& options) {
  const auto make = [&](World& on, ReplayedTraining& training, const std::string& name,
                        std::string_view) {
    return dataflow::ExecutorAccess::make(
        on, training.graph(), training.kernels(on.rank()),
        {.name = name, .threads = 1, .way = dataflow::EdgeWay::slots}, way);
  };
  auto rows = measure_training(world, options, make);
  return world.rank() == 0 ? rows : std::vector<RunRow>{};
}

}  // namespace weft::bench
