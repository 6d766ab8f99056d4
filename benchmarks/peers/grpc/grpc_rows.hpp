// Steps of a sparse table over a gRPC stream.
#pragma once

#include <memory>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/workloads/row_batches.hpp"
#include "pslib/sparse/row_store.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {

/// Subtracts a step's gradients from its rows, then answers with the requested rows. Uses the row
/// store of weft's server, so that the two sides differ only in how rows travel.
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

/// Returns the worker's rows of results.
std::vector<RunRow> measure_rows(const std::shared_ptr<grpc::Channel>& channel,
                                 const RunOptions& options);

}  // namespace weft::bench
