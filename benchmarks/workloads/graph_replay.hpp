// A step of a model of the paper's table 1 as a dataflow graph on two ranks: what crosses them, and
// no computation but the sum of gradients.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "benchmarks/harness/payload.hpp"
#include "benchmarks/workloads/models.hpp"
#include "weft/executor.hpp"

namespace weft::bench {

/// Kinds of row, by the way of the edges between the ranks.
inline constexpr std::string_view kViewedEdges = "viewed";
inline constexpr std::string_view kStaticEdges = "static";
inline constexpr std::string_view kRendezvousEdges = "rendezvous";
inline constexpr std::string_view kCopiedEdges = "copied";  ///< static ones, analysis off
inline constexpr std::string_view kRpcEdges = "rpc";
inline constexpr std::array kKindsOfEdge{kViewedEdges, kStaticEdges, kRendezvousEdges, kCopiedEdges,
                                         kRpcEdges};

/// The same work as ps_replay's: both ranks are workers, and servers of half of the parameters. A
/// worker reads each parameter and rewrites its gradient; the server adds both gradients to it.
class GraphReplay {
 public:
  explicit GraphReplay(const Model& model);

  const dataflow::Graph& graph() const noexcept { return graph_; }
  /// They refer to this object.
  dataflow::Kernels kernels(int rank);
  /// Runs a step. Throws Error.
  void step(dataflow::Executor& executor);
  /// Throws std::runtime_error unless the rank's parameters are what the steps so far give.
  void check(dataflow::Executor& executor, int rank) const;

 private:
  const Model& model_;
  dataflow::Graph graph_;
  std::uint64_t steps_ = 0;
  ExpectedParameters expected_;
};

}  // namespace weft::bench
