// Training steps over a gRPC stream.
#pragma once

#include <memory>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {

/// Adds each gradient of a call to the parameters, which lie in the answer's message. Each size
/// starts with parameters of 0.
class TrainingServer final : public Trainer::Service {
 public:
  grpc::Status Steps(grpc::ServerContext*,
                     grpc::ServerReaderWriter<Tensor, Tensor>* stream) override;
};

/// Returns the worker's rows of results.
std::vector<RunRow> measure_training(const std::shared_ptr<grpc::Channel>& channel,
                                     const RunOptions& options);

}  // namespace weft::bench
