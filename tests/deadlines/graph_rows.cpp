// Steps of a dataflow graph.
#include <memory>

#include "tests/deadlines/row.hpp"
#include "weft/executor.hpp"

namespace weft::tests {
namespace {

/// Rank 0 fetches what rank 1 is fed with.
Case runs_a_step(Side& side) {
  dataflow::Graph graph;
  graph.place_next({.rank = 1});
  const dataflow::TensorId x = graph.feed("x", DType::f32, {16});
  graph.fetch(x, "out", {.rank = 0});
  const auto executor =
      std::make_shared<dataflow::Executor>(side.world, graph, dataflow::Kernels(),
                                           dataflow::ExecutorOptions{.name = side.named("graph")});
  if (side.calls())
    return {.call = [executor](Deadline deadline) { return said(executor->run({}, deadline)); }};
  return {.part =
              [executor] {
                const auto until = Deadline::after(std::chrono::milliseconds(200));
                (void)executor->run({{"x", executor->feed("x")}}, until);
              },
          .end = [executor] {}};
}

}  // namespace

std::vector<Row> graph_rows() { return {{"Executor::run", runs_a_step}}; }

}  // namespace weft::tests
