// Dataflow graphs with edges by gRPC: the benchmarks graph_replay and fig9.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "runtime/dataflow/execute/executor_access.hpp"
#include "transfer.grpc.pb.h"
#include "weft/world.hpp"

namespace weft::bench {

/// Takes the tensors that the other rank sends, by edge. Any thread.
class EdgeService final : public Edges::Service {
 public:
  grpc::Status Tensors(grpc::ServerContext*,
                       grpc::ServerReaderWriter<Largest, EdgeTensor>* stream) override;

  /// Arrivals wake this world's threads from now on.
  void ring(World* world);
  bool has(std::size_t edge);
  /// Requires has(edge).
  EdgeTensor take(std::size_t edge);

 private:
  std::mutex mutex_;
  World* world_ = nullptr;
  std::map<std::size_t, std::deque<EdgeTensor>> arrived_;
};

/// The channel to a place.
using Connect = std::function<std::shared_ptr<grpc::Channel>(const std::string& place)>;
/// Runs graphs whose edges are calls to the other rank.
using GraphJob = std::function<void(World& world, const dataflow::MakeWay& way)>;

/// Joins the job by weft, whose executors run the graphs, and leaves it after `job`. `place`: that
/// of this rank's server, which has `service`.
void run_graphs_over_grpc(const std::string& place, EdgeService& service, const Connect& connect,
                          const GraphJob& job);

/// The rows of graph_replay, on rank 0.
std::vector<RunRow> replay_graph_over_grpc(World& world, const dataflow::MakeWay& way,
                                           const RunOptions& options);

}  // namespace weft::bench
