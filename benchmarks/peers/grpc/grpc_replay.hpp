// The paper's models, step by step, over streams of gRPC.
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

/// Each worker keeps one call open for a model: part after part goes up, and comes back when both
/// workers' have been added.
class ReplayService final : public Replayer::Service {
 public:
  explicit ReplayService(int rank) : rank_(rank) {}

  grpc::Status Steps(grpc::ServerContext*,
                     grpc::ServerReaderWriter<Tensor, Tensor>* stream) override;

 private:
  /// The shard of the model that both calls are about; the first of them makes it.
  std::shared_ptr<ReplayServer> join(std::size_t model_bytes);

  int rank_;
  std::mutex mutex_;
  std::condition_variable both_;
  std::shared_ptr<ReplayServer> shard_;
  int joined_ = 0;
  std::array<std::string, 2> gradients_;
  std::barrier<> meeting_{2};
};

/// This worker's rows. `addresses` are both servers'.
std::vector<RunRow> replay_over_grpc(int rank,
                                     const std::array<std::shared_ptr<grpc::Channel>, 2>& servers,
                                     const RunOptions& options);

}  // namespace weft::bench
