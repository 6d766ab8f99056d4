// A training step of the peers: the gradient there, a sum, the parameters back.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/transfer.hpp"

namespace weft::bench {

/// The worker's end for one size.
class TrainingPeer {
 public:
  TrainingPeer(std::size_t size, const RunOptions& options)
      : options_(options), gradient_(size / sizeof(float)), parameters_(gradient_.size()) {}

  /// Returns a row per kind. `step(gradient)` sends the gradient and returns the new parameters'
  /// address, valid until the next call. For a row about pulling, the parameters are copied out, as
  /// weft's pull does into the worker's own tensor.
  template <typename Step>
  std::vector<RunRow> measure(Step&& step) {
    std::vector<RunRow> rows;
    for (const std::string_view kind : {kByPull, kByView}) {
      const auto samples = lead_transfers(
          options_.budget, [](std::uint64_t) {},
          [&](std::uint64_t) { return one(kind == kByPull, step); });
      rows.push_back({bytes(), std::string(kind), {{"sendrecv", median(samples)}}, {}});
    }
    return rows;
  }

 private:
  std::size_t bytes() const { return gradient_.size() * sizeof(float); }

  template <typename Step>
  double one(bool pulls, Step&& step) {
    fill_gradient(gradient_.data(), gradient_.size(), ++steps_);
    expected_.add(steps_);
    const float* values = nullptr;
    const double spent = timed([&] {
      values = step(gradient_);
      if (pulls) std::memcpy(parameters_.data(), values, bytes());
      if (pulls) values = parameters_.data();
      touch(values, bytes());
    });
    if (options_.check && steps_ % kCheckEvery == 0 && !expected_.match(values, gradient_.size()))
      throw std::runtime_error("wrong data: " + std::to_string(bytes()) + " bytes");
    return spent;
  }

  const RunOptions& options_;
  std::vector<float> gradient_;
  std::vector<float> parameters_;
  std::uint64_t steps_ = 0;
  ExpectedParameters expected_;
};

}  // namespace weft::bench
