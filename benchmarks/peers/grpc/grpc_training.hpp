// Training steps over a stream of gRPC.
#pragma once

#include <memory>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {

/// Adds each gradient of a call to its parameters, which are the answer and lie in its message. A
/// size begins with parameters of 0.
class TrainingServer final : public Trainer::Service {
 public:
  grpc::Status Steps(grpc::ServerContext*,
                     grpc::ServerReaderWriter<Tensor, Tensor>* stream) override;
};

/// The worker's rows.
std::vector<RunRow> measure_training(const std::shared_ptr<grpc::Channel>& channel,
                                     const RunOptions& options);

}  // namespace weft::bench
