// Executors whose edges go by a way of the caller's own, for benchmarks that compare ways.
#pragma once

#include <functional>
#include <memory>

#include "runtime/dataflow/execute/edge_ends.hpp"
#include "weft/executor.hpp"

namespace weft::dataflow {

/// Makes the way of all edges. Called on each rank once all have agreed on the graph; the plan
/// outlives the way.
using MakeWay = std::function<std::unique_ptr<Way>(World&, const Plan&)>;

struct ExecutorAccess {
  /// As the constructor; `options.way` must be EdgeWay::slots, whose plan the way gets. Every rank
  /// must give the same way.
  static Executor make(World& world, const Graph& graph, Kernels kernels,
                       const ExecutorOptions& options, const MakeWay& make_way);
  static std::weak_ptr<void> watch(const Executor& executor) noexcept { return executor.state_; }
  /// A second handle of an executor that is there; empty once it has gone.
  static Executor again(const std::weak_ptr<void>& executor) noexcept;
};

}  // namespace weft::dataflow
