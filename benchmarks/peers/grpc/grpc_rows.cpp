#include "benchmarks/peers/grpc/grpc_rows.hpp"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/peers/grpc/call.hpp"
#include "pslib/sparse/unique_ids.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kStored = 16384;  // rows per message while filling the store
constexpr std::uint64_t kVersion = 1;   // rows never expire

using RowCall = Call<RowStep, Tensor>;

void store_all(RowCall& call) {
  const std::string zeros(kStored * kRowBytes, '\0');
  for (std::uint64_t row = 0; row < kTableRows;) {
    RowStep& step = call.request();
    step.Clear();
    for (std::size_t i = 0; i < kStored && row < kTableRows; ++i) step.add_pushed(row_id(row++));
    set_bytes(*step.mutable_gradients(), zeros.data(),
              static_cast<std::size_t>(step.pushed_size()) * kRowBytes);
    call.exchange();
  }
}

/// Calls `act` with each id, prefetching the rows of later ids.
template <typename Act>
void for_each_row(const pslib::RowStore& rows, const auto& listed, Act&& act) {
  const std::span<const std::uint64_t> ids(listed.data(), static_cast<std::size_t>(listed.size()));
  for (std::size_t at = 0; at < ids.size(); at += pslib::RowStore::kMostFetched) {
    const auto block = ids.subspan(at, std::min(pslib::RowStore::kMostFetched, ids.size() - at));
    rows.fetch(block);
    for (const std::uint64_t id : block) act(id);
  }
}

/// A batch's step with deduplicated ids, as in weft's requests.
class Batcher {
 public:
  void push(std::span<const std::uint64_t> ids, std::span<const float> gradients, RowStep& step) {
    number(ids, *step.mutable_pushed());
    std::string& content = *step.mutable_gradients();
    content.assign(unique_.size() * kRowBytes, '\0');
    auto* const sums = reinterpret_cast<float*>(content.data());
    for (std::size_t i = 0; i < ids.size(); ++i)
      for (std::size_t k = 0; k < kRowElements; ++k)
        sums[numbers_[i] * kRowElements + k] += gradients[i * kRowElements + k];
  }
  void ask(std::span<const std::uint64_t> ids, RowStep& step) {
    number(ids, *step.mutable_asked());
  }
  /// Copies the rows requested last to `to`, in the batch's order.
  void take(const Tensor& answer, float* to) const {
    const auto* const rows = reinterpret_cast<const float*>(answer.content().data());
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      std::copy_n(rows + numbers_[i] * kRowElements, kRowElements, to + i * kRowElements);
  }

 private:
  void number(std::span<const std::uint64_t> ids, auto& listed) {
    unique_.begin(ids.size());
    numbers_.clear();
    for (const std::uint64_t id : ids) numbers_.push_back(unique_.add(id));
    listed.Clear();
    listed.Add(unique_.ids().begin(), unique_.ids().end());
  }

  pslib::UniqueIds unique_;
  std::vector<std::uint32_t> numbers_;
};

}  // namespace

RowServer::RowServer() : rows_({.dim = kRowElements}) {}

void RowServer::push(const RowStep& step) {
  const auto* gradient = reinterpret_cast<const float*>(step.gradients().data());
  for_each_row(rows_, step.pushed(), [&](std::uint64_t id) {
    apply_gradient(rows_.to_update(id, kVersion), gradient, kRowElements);
    gradient += kRowElements;
  });
}

void RowServer::look_up(const RowStep& step, std::string& answer) {
  answer.resize(static_cast<std::size_t>(step.asked_size()) * kRowBytes);
  auto* to = reinterpret_cast<float*>(answer.data());
  for_each_row(rows_, step.asked(), [&](std::uint64_t id) {
    rows_.look_up(id, kVersion, to);
    to += kRowElements;
  });
}

grpc::Status RowServer::Steps(grpc::ServerContext*,
                              grpc::ServerReaderWriter<Tensor, RowStep>* stream) {
  RowStep step;
  Tensor answer;
  while (stream->Read(&step)) {
    push(step);
    look_up(step, *answer.mutable_content());
    if (!stream->Write(answer)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

std::vector<RunRow> measure_rows(const std::shared_ptr<grpc::Channel>& channel,
                                 const RunOptions& options) {
  const auto server = Rows::NewStub(channel);
  RowCall call([&](grpc::ClientContext* context) { return server->Steps(context); });
  store_all(call);
  std::unique_ptr<ExpectedRows> expected;
  if (options.check) expected = std::make_unique<ExpectedRows>();
  std::vector<RunRow> rows;
  std::vector<float> values;
  Batcher batcher;
  std::uint64_t steps = 0;
  for (const std::size_t size : options.sizes) {
    const RowBatches batches(size / kRowBytes);
    values.resize(batches.size() * kRowElements);
    const auto samples = lead_transfers(
        options.budget, [](std::uint64_t) {},
        [&](std::uint64_t) {
          const std::uint64_t pushed = steps++;
          const double spent = timed([&] {
            batcher.push(batches.ids(pushed), batches.gradients(), call.request());
            batcher.ask(batches.ids(steps), call.request());
            // Into the worker's own tensor, like weft's lookup.
            batcher.take(call.exchange(), values.data());
          });
          if (expected) {
            expected->push(batches.rows(pushed));
            if (!expected->match(batches.rows(steps), values.data()))
              throw std::runtime_error("wrong data: " + std::to_string(batches.size()) + " rows");
          }
          return spent;
        });
    rows.push_back({size, std::string(kByPull), {{"sendrecv", median(samples)}}, {}});
  }
  call.end();
  return rows;
}

}  // namespace weft::bench
