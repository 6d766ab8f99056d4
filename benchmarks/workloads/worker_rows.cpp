// A step of a sparse table of ten million rows: the last batch's gradients pushed and the next
// batch's rows looked up in one call. The limit does the same on a bare array of the worker's own.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/row_batches.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/pslib.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kRequestRows = 16384;
constexpr std::size_t kLeastRounds = 5;
constexpr std::uint64_t kWarmUp = 4;

pslib::SparseTable make_table(pslib::ParameterServer& server) {
  pslib::SparseOptions options;
  options.dim = kRowElements;
  options.optimizer = pslib::Optimizer::sgd(1.0F);
  options.consistency = pslib::Consistency::async();
  options.spread = 0.0F;
  options.request_rows = kRequestRows;
  return server.sparse_table("rows", options);
}

// Stores every row, as in the middle of a training.
void store_all(pslib::SparseTable& table) {
  std::vector<std::uint64_t> ids;
  const std::vector<float> zeros(kRequestRows * kRowElements);
  for (std::uint64_t row = 0; row < kTableRows;) {
    ids.clear();
    for (; ids.size() < kRequestRows && row < kTableRows; ++row) ids.push_back(row_id(row));
    table.push(ids, std::span(zeros).first(ids.size() * kRowElements)).or_throw();
  }
  table.flush().or_throw();
}

/// Rank 0.
class RowWorker {
 public:
  RowWorker(pslib::SparseTable& table, bool check)
      : table_(table), bare_(kTableRows * kRowElements) {
    if (check) expected_ = std::make_unique<ExpectedRows>();
    store_all(table_);
  }

  RunRow measure(std::size_t size, const RunOptions& options) {
    const RowBatches batches(size / kRowBytes);
    rows_.resize(batches.size() * kRowElements);
    for (std::uint64_t i = 0; i < kWarmUp; ++i) through_weft(batches);
    std::vector<double> weft;
    std::vector<double> limit;
    const auto end = std::chrono::steady_clock::now() + options.budget;
    while (weft.size() < kLeastRounds || std::chrono::steady_clock::now() < end) {
      weft.push_back(through_weft(batches));
      limit.push_back(through_bare_memory(batches));
    }
    RunRow row = compared(size, kByPull, weft, limit);
    row.figures["rows_per_s"] = 2e6 * static_cast<double>(batches.size()) / median(weft);
    return row;
  }

 private:
  double through_weft(const RowBatches& batches) {
    const std::uint64_t step = steps_++;
    const double spent = timed([&] {
      table_.push_lookup(batches.ids(step), batches.gradients(), batches.ids(step + 1), rows_)
          .or_throw();
    });
    if (expected_) {
      expected_->push(batches.rows(step));
      require_data(expected_->match(batches.rows(step + 1), rows_.data()), rows_.size(), step);
    }
    return spent;
  }

  double through_bare_memory(const RowBatches& batches) {
    const std::uint64_t step = bare_steps_++;
    const auto pushed = batches.rows(step);
    const auto asked = batches.rows(step + 1);
    const double spent = timed([&] {
      for (std::size_t i = 0; i < pushed.size(); ++i)
        apply_gradient(row(pushed[i]), batches.gradients().data() + i * kRowElements, kRowElements);
      for (std::size_t i = 0; i < asked.size(); ++i)
        std::copy_n(row(asked[i]), kRowElements, rows_.data() + i * kRowElements);
    });
    touch(rows_.data(), rows_.size() * sizeof(float));
    return spent;
  }

  float* row(std::uint32_t number) noexcept { return bare_.data() + number * kRowElements; }

  pslib::SparseTable& table_;
  std::vector<float> bare_;
  std::vector<float> rows_;
  std::unique_ptr<ExpectedRows> expected_;
  std::uint64_t steps_ = 0;
  std::uint64_t bare_steps_ = 0;
};

// The server's memory figure, which it publishes once it has served.
PublishedSpec size_slot() {
  PublishedSpec spec;
  spec.name = "bench.rows.bytes";
  spec.dtype = DType::i64;
  spec.shape = Shape{1};
  return spec;
}

}  // namespace

std::vector<RunRow> measure_rows(World& world, const RunOptions& options) {
  pslib::ParameterServer server(world, {.workers = {0}, .servers = {1}}, "bench");
  std::vector<RunRow> rows;
  if (world.rank() == 0) {
    PublishedReader told = world.attach_published(1, size_slot());
    {
      pslib::SparseTable table = make_table(server);
      RowWorker worker(table, options.check);
      for (const std::size_t size : options.sizes) rows.push_back(worker.measure(size, options));
    }
    const Arrival bytes = told.view().value();
    for (RunRow& row : rows)
      row.figures["bytes_per_row"] =
          static_cast<double>(bytes.as<std::int64_t>()[0]) / static_cast<double>(kTableRows);
  } else {
    PublishedSlot tells = world.expose_published(size_slot());
    pslib::SparseTable table = make_table(server);
    pslib::SparseTable* const tables[] = {&table};
    server.serve({}, tables).or_throw();
    tells.next().value().as<std::int64_t>()[0] =
        static_cast<std::int64_t>(table.statistics().bytes);
    tells.publish().or_throw();
    while (tells.readers() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return rows;
}

}  // namespace weft::bench
