// Dataflow graphs with edges by gRPC: the benchmarks graph_replay and fig9, and experiments.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/harness/training_protocol.hpp"
#include "benchmarks/peers/grpc/grpc_edges.hpp"

namespace weft::bench {

/// Runs graphs whose edges are calls to other ranks.
using GraphJob = std::function<void(World& world, const dataflow::MakeWay& way)>;

/// Joins a job of `ranks` ranks by weft, whose executors run the graphs, and leaves it after `job`.
/// `place`: that of this rank's server, which has `service`.
void run_graphs_over_grpc(const std::string& place, EdgeService& service, const Connect& connect,
                          int ranks, const GraphJob& job);

/// The rows of graph_replay, on rank 0.
std::vector<RunRow> replay_graph_over_grpc(World& world, const dataflow::MakeWay& way,
                                           const RunOptions& options);

/// The rows of an experiment, on rank 0.
std::vector<RunRow> train_over_grpc(World& world, const dataflow::MakeWay& way,
                                    const TrainingOptions& options);

}  // namespace weft::bench
