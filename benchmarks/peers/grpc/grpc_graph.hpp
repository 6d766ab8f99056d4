// The benchmark graph_replay with edges by gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
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
  std::string take(std::size_t edge);

 private:
  std::mutex mutex_;
  World* world_ = nullptr;
  std::map<std::size_t, std::deque<std::string>> arrived_;
};

/// Joins the job by weft, whose executor runs the graph; its edges are calls to the other rank.
/// `place`: that of this rank's server, which has `service`. `connect`: the channel to a place.
std::vector<RunRow> replay_graph_over_grpc(
    const std::string& place, EdgeService& service,
    const std::function<std::shared_ptr<grpc::Channel>(const std::string&)>& connect,
    const RunOptions& options);

}  // namespace weft::bench
