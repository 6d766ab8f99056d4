// A training step in one call of gRPC.
#pragma once

#include <memory>
#include <vector>

#include "benchmarks/run_protocol.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {

/// Adds the gradient of a call to its parameters, which are the answer. A size begins with
/// parameters of 0.
class TrainingServer final : public Trainer::Service {
 public:
  grpc::Status Step(grpc::ServerContext*, const Tensor* gradient, Tensor* answer) override;

 private:
  std::vector<float> parameters_;
};

/// The worker's rows.
std::vector<RunRow> measure_training(const std::shared_ptr<grpc::Channel>& channel,
                                     const RunOptions& options);

}  // namespace weft::bench
