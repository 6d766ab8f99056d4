// Steps of a sparse table over a stream of gRPC.
#pragma once

#include <memory>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/workloads/row_batches.hpp"
#include "pslib/sparse/row_store.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {

/// Subtracts the gradients of a step from its rows, then answers with those asked for. The rows lie
/// in the store that weft's server uses, so that the two sides differ in how rows travel alone.
class RowServer final : public Rows::Service {
 public:
  RowServer();
  grpc::Status Steps(grpc::ServerContext*,
                     grpc::ServerReaderWriter<Tensor, RowStep>* stream) override;

 private:
  void push(const RowStep& step);
  void look_up(const RowStep& step, std::string& answer);

  pslib::RowStore rows_;
};

/// The worker's rows.
std::vector<RunRow> measure_rows(const std::shared_ptr<grpc::Channel>& channel,
                                 const RunOptions& options);

}  // namespace weft::bench
