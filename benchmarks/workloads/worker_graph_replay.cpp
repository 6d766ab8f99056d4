// Steps of the models of the paper's table 1 as graphs, by each way of their edges. The limit is
// that of ps_replay's views.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/workloads/bare_replay.hpp"
#include "benchmarks/workloads/graph_replay.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

using dataflow::EdgeWay;

constexpr std::array<std::pair<std::string_view, EdgeWay>, 3> kWays{
    {{kViewedEdges, EdgeWay::views},
     {kStaticEdges, EdgeWay::slots},
     {kRendezvousEdges, EdgeWay::rendezvous}}};

RunRow measure(World& world, const RunOptions& options, const Model& model, std::string_view kind,
               EdgeWay way) {
  const std::string name = std::string(model.name) + "." + std::string(kind);
  const std::uint64_t steps = replayed_steps(model.bytes(), options.budget.count());
  double weft = 0;
  {
    GraphReplay replay(model);
    dataflow::Executor executor(world, replay.graph(), replay.kernels(world.rank()),
                                {.name = name, .way = way});
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
    for (const auto& [kind, way] : kWays)
      rows.push_back(measure(world, options, model_of(bytes), kind, way));
  return rows;
}

}  // namespace weft::bench
