#include "benchmarks/peers/grpc/grpc_rows.hpp"

#include <grpcpp/grpcpp.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "benchmarks/payload.hpp"
#include "benchmarks/statistics.hpp"
#include "benchmarks/transfer.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kStored = 16384;  // rows of a call that stores them

void call(Rows::Stub& server, const RowStep& step, Tensor& answer) {
  grpc::ClientContext context;
  const grpc::Status status = server.Step(&context, step, &answer);
  if (!status.ok()) throw std::runtime_error("the call failed: " + status.error_message());
}

void store_all(Rows::Stub& server) {
  const std::string zeros(kStored * kRowBytes, '\0');
  Tensor answer;
  for (std::uint64_t row = 0; row < kTableRows;) {
    RowStep step;
    for (std::size_t i = 0; i < kStored && row < kTableRows; ++i) step.add_pushed(row_id(row++));
    step.set_gradients(zeros.data(), static_cast<std::size_t>(step.pushed_size()) * kRowBytes);
    call(server, step, answer);
  }
}

}  // namespace

grpc::Status RowServer::Step(grpc::ServerContext*, const RowStep* step, Tensor* answer) {
  if (rows_.empty()) rows_.reserve(kTableRows);
  const auto* gradient = reinterpret_cast<const float*>(step->gradients().data());
  for (const std::uint64_t id : step->pushed()) {
    apply_gradient(rows_[id].data(), gradient, kRowElements);
    gradient += kRowElements;
  }
  std::string& content = *answer->mutable_content();
  content.resize(static_cast<std::size_t>(step->asked_size()) * kRowBytes);
  char* to = content.data();
  for (const std::uint64_t id : step->asked()) {
    std::memcpy(to, rows_[id].data(), kRowBytes);
    to += kRowBytes;
  }
  return grpc::Status::OK;
}

std::vector<RunRow> measure_rows(const std::shared_ptr<grpc::Channel>& channel,
                                 const RunOptions& options) {
  const auto server = Rows::NewStub(channel);
  store_all(*server);
  std::unique_ptr<ExpectedRows> expected;
  if (options.check) expected = std::make_unique<ExpectedRows>();
  std::vector<RunRow> rows;
  std::vector<float> values;
  Tensor answer;
  std::uint64_t steps = 0;
  for (const std::size_t size : options.sizes) {
    const RowBatches batches(size / kRowBytes);
    values.resize(batches.size() * kRowElements);
    const auto samples = lead_transfers(
        options.budget, [](std::uint64_t) {},
        [&](std::uint64_t) {
          const auto pushed = batches.ids(steps);
          const auto asked = batches.ids(++steps);
          const double spent = timed([&] {
            RowStep step;
            step.mutable_pushed()->Add(pushed.begin(), pushed.end());
            step.set_gradients(batches.gradients().data(), size);
            step.mutable_asked()->Add(asked.begin(), asked.end());
            call(*server, step, answer);
            // Into the worker's own tensor, as weft's lookup leaves them.
            std::memcpy(values.data(), answer.content().data(), size);
          });
          if (expected) {
            expected->push(batches.rows(steps - 1));
            if (!expected->match(batches.rows(steps), values.data()))
              throw std::runtime_error("wrong data: " + std::to_string(batches.size()) + " rows");
          }
          return spent;
        });
    rows.push_back({size, std::string(kByPull), {{"sendrecv", median(samples)}}, {}});
  }
  return rows;
}

}  // namespace weft::bench
