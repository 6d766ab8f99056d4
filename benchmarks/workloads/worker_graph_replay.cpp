// Steps of the models of the paper's table 1 as graphs, by each way of their edges. The limit is
// that of ps_replay's views.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/rpc_built.hpp"
#include "benchmarks/workloads/bare_replay.hpp"
#include "benchmarks/workloads/graph_replay.hpp"
#include "benchmarks/workloads/rpc_way.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "runtime/dataflow/execute/executor_access.hpp"

namespace weft::bench {
namespace {

using dataflow::EdgeWay;

dataflow::Executor executor_of(World& world, GraphReplay& replay, const std::string& name,
                               std::string_view kind) {
  dataflow::ExecutorOptions options{.name = name, .way = EdgeWay::slots};
  if (kind == kViewedEdges) options.way = EdgeWay::views;
  if (kind == kRendezvousEdges) options.way = EdgeWay::rendezvous;
  if (kind == kCopiedEdges) options.sent = dataflow::SentMemory::plain;
  if (kind != kRpcEdges) return {world, replay.graph(), replay.kernels(world.rank()), options};
  return dataflow::ExecutorAccess::make(
      world, replay.graph(), replay.kernels(world.rank()), options,
      [](World& on, const dataflow::Plan&) { return make_rpc_way(on); });
}

RunRow measure(World& world, const RunOptions& options, const Model& model, std::string_view kind) {
  const std::string name = std::string(model.name) + "." + std::string(kind);
  const std::uint64_t steps = replayed_steps(model.bytes(), options.budget.count());
  double weft = 0;
  {
    GraphReplay replay(model);
    dataflow::Executor executor = executor_of(world, replay, name, kind);
    weft = time_of_steps(steps, [&] { replay.step(executor); });
    if (options.check) replay.check(executor, world.rank());
  }
  BareReplay bare(world, options, name, model.bytes(), false);
  const double limit = time_of_steps(steps, [&] { bare.step(); });
  RunRow row = compared(model.bytes(), name, {&weft, 1}, {&limit, 1});
  row.figures["steps_per_s"] = 1e6 / weft;
  return row;
}

}  // namespace

std::vector<RunRow> measure_graph_replay(World& world, const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t bytes : options.sizes)
    for (const std::string_view kind : kKindsOfEdge) {
      if (kind == kRpcEdges && !kRpcRefusal.empty()) {
        if (world.rank() == 0) fmt::print(stderr, "graph_replay: skipped: rpc: {}\n", kRpcRefusal);
        continue;
      }
      rows.push_back(measure(world, options, model_of(bytes), kind));
    }
  return rows;
}

}  // namespace weft::bench
