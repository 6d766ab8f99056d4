// Training steps of the paper's models over gRPC streams.
#pragma once

#include <array>
#include <barrier>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/peers/replay.hpp"
#include "benchmarks/workloads/models.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {

/// Each worker keeps one call open per model. Each part goes to the server and comes back once both
/// workers' gradients are added.
class ReplayService final : public Replayer::Service {
 public:
  explicit ReplayService(int rank) : rank_(rank) {}

  grpc::Status Steps(grpc::ServerContext*,
                     grpc::ServerReaderWriter<Tensor, Tensor>* stream) override;

 private:
  /// The shard of the model that both calls share; created by the first of them.
  std::shared_ptr<ReplayServer> join(std::size_t model_bytes);

  int rank_;
  std::mutex mutex_;
  std::condition_variable both_;
  std::shared_ptr<ReplayServer> shard_;
  int joined_ = 0;
  std::array<std::string, 2> gradients_;
  std::barrier<> meeting_{2};
};

/// Returns this worker's rows. `servers` has both servers' channels.
std::vector<RunRow> replay_over_grpc(int rank,
                                     const std::array<std::shared_ptr<grpc::Channel>, 2>& servers,
                                     const RunOptions& options);

}  // namespace weft::bench
