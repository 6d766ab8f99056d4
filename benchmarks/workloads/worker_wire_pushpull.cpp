// A training step's traffic between two hosts: one worker, one server, timed by the worker's clock
// alone.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/harness/wire.hpp"
#include "benchmarks/limits/bare_stream.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/pslib.hpp"

namespace weft::bench {
namespace {

using Timer = std::chrono::steady_clock;

const std::string kTensor = "parameters";

double microseconds_since(Timer::time_point start) {
  return std::chrono::duration<double, std::micro>(Timer::now() - start).count();
}

/// The worker, alternating with the bare stream.
class Worker {
 public:
  Worker(pslib::Table& table, BareStream& bare, std::size_t size, std::string_view kind)
      : table_(table), bare_(bare), size_(size), kind_(kind) {
    std::ranges::fill(table_.parameter(kTensor).as<float>(), 0.0F);
    table_.initialize().or_throw();
  }

  RunRow measure(const RunOptions& options) {
    std::vector<double> samples;
    LimitWays limit = BareStream::ways_to_send(size_);
    for (std::uint32_t block = 0; block <= wire_blocks(options); ++block) {
      double spent = 0;
      for (std::uint32_t i = 0; i < wire_operations(size_); ++i) spent += step(options.check);
      bare_.send(size_, wire_operations(size_), limit);
      // The first block registers memory and connects.
      if (block > 0) samples.push_back(spent / wire_operations(size_));
    }
    // The unavoidable traffic: the gradient and the parameters cross the wire, one after the other.
    constexpr double kTransfers = 2;
    return limit.compared(size_, kind_, samples, kTransfers);
  }

 private:
  double step(bool check) {
    const std::size_t count = size_ / sizeof(float);
    fill_gradient(table_.gradient(kTensor).as<float>().data(), count, ++steps_);
    const auto start = Timer::now();
    table_.push().or_throw();
    std::span<const float> parameters = table_.parameter(kTensor).as<float>();
    if (kind_ == kByPull) {
      table_.pull().or_throw();
    } else {
      table_.wait_updated().or_throw();
      parameters = table_.view(kTensor).value().values();
    }
    touch(parameters.data(), size_);
    const double spent = microseconds_since(start);
    expected_.add(steps_);
    if (check && steps_ % kCheckEvery == 0)
      require_data(expected_.match(parameters.data(), count), size_, steps_);
    return spent;
  }

  pslib::Table& table_;
  BareStream& bare_;
  const std::size_t size_;
  const std::string_view kind_;
  std::uint64_t steps_ = 0;
  ExpectedParameters expected_;
};

}  // namespace

std::vector<RunRow> measure_wire_push_pull(World& world, const RunOptions& options) {
  pslib::ParameterServer server(world, {.workers = {0}, .servers = {1}, .split_bytes = SIZE_MAX},
                                "bench");
  BareStream bare(world);
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes)
    for (const std::string_view kind : {kByPull, kByView}) {
      pslib::Table table =
          server.table("bench." + std::string(kind) + "." + std::to_string(size),
                       {{kTensor, Shape{static_cast<std::int64_t>(size / sizeof(float))}}},
                       pslib::Optimizer::sgd(1.0F));
      if (world.rank() == 0) {
        rows.push_back(Worker(table, bare, size, kind).measure(options));
        continue;
      }
      LimitWays ways = BareStream::ways_to_send(size);
      const std::jthread limit([&] {
        for (std::uint32_t block = 0; block <= wire_blocks(options); ++block)
          bare.send(size, wire_operations(size), ways);
      });
      pslib::Table* const tables[] = {&table};
      server.serve(tables).or_throw();
    }
  return rows;
}

}  // namespace weft::bench
