// A step of a sparse table in one call of gRPC.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "benchmarks/row_batches.hpp"
#include "benchmarks/run_protocol.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {

/// Subtracts the gradients of a call from its rows, then answers with those asked for: a hash map
/// of the standard library, as large from the beginning as it will be.
class RowServer final : public Rows::Service {
 public:
  grpc::Status Step(grpc::ServerContext*, const RowStep* step, Tensor* answer) override;

 private:
  std::unordered_map<std::uint64_t, std::array<float, kRowElements>> rows_;
};

/// The worker's rows.
std::vector<RunRow> measure_rows(const std::shared_ptr<grpc::Channel>& channel,
                                 const RunOptions& options);

}  // namespace weft::bench
