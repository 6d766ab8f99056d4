// Steps of a model of the paper's table 1 between two peers, each a worker and a server: the part
// that does not depend on the transport.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/models.hpp"

namespace weft::bench {

/// A server's parameters, one vector per part.
class ReplayServer {
 public:
  ReplayServer(const Model& model, int server) {
    for (const Part& part : parts_of(model))
      if (part.server == server) parameters_.emplace_back(part.count, 0.0F);
  }

  std::size_t parts() const noexcept { return parameters_.size(); }
  std::vector<float>& part(std::size_t i) noexcept { return parameters_[i]; }
  /// Adds both workers' gradients of part `i`.
  void apply(std::size_t i, const float* a, const float* b) noexcept {
    apply_gradients(parameters_[i].data(), a, b, parameters_[i].size());
  }

 private:
  std::vector<std::vector<float>> parameters_;
};

/// A worker's gradients, and its own copy of the parameters if it pulls them.
class ReplayWorker {
 public:
  ReplayWorker(const Model& model, bool pulls, int rank)
      : model_(model), pulls_(pulls), rank_(static_cast<std::uint64_t>(rank)) {
    for (std::size_t i = 0; i < model.shapes.size(); ++i) {
      gradients_.emplace_back(model.elements(i));
      if (pulls) parameters_.emplace_back(model.elements(i));
    }
  }

  /// Begins a step: writes all gradients anew.
  void new_gradients() {
    ++steps_;
    for (auto& gradient : gradients_)
      fill_gradient(gradient.data(), gradient.size(), steps_ + rank_);
    expected_.add(steps_);
    expected_.add(steps_ + 1);
  }

  float* gradient(const Part& part) { return gradients_[part.tensor].data() + part.first; }

  /// Takes new parameters: reads them, or copies them to its own tensor and reads that if it pulls.
  void take(const Part& part, const float* values) {
    if (pulls_) {
      float* const own = parameters_[part.tensor].data() + part.first;
      std::memcpy(own, values, part.count * sizeof(float));
      values = own;
    }
    touch(values, part.count * sizeof(float));
  }

  /// Checks the worker's own parameters.
  void check() const {
    for (const auto& tensor : parameters_)
      if (!expected_.match(tensor.data(), tensor.size()))
        throw std::runtime_error("wrong data: a step of " + std::string(model_.name));
  }

 private:
  const Model& model_;
  bool pulls_;
  std::uint64_t rank_;
  std::vector<std::vector<float>> gradients_;
  std::vector<std::vector<float>> parameters_;
  std::uint64_t steps_ = 0;
  ExpectedParameters expected_;
};

/// All rows of a run. `replay(model, total, work)` connects for a model, serves `total` steps
/// concurrently with the caller, calls work(step), where step(worker) sends a worker's gradients
/// and takes the parameters, and returns when both workers are served.
template <typename Replay>
std::vector<RunRow> replay_models(const RunOptions& options, int rank, Replay&& replay) {
  std::vector<RunRow> rows;
  for (const std::size_t bytes : options.sizes)
    for (const std::string_view kind : {kByPull, kByView}) {
      const Model& model = model_of(bytes);
      const std::uint64_t steps = replayed_steps(bytes, options.budget.count());
      replay(model, kReplayWarmUp + steps, [&](auto&& step) {
        ReplayWorker worker(model, kind == kByPull, rank);
        const auto one = [&] {
          worker.new_gradients();
          step(worker);
        };
        for (std::uint64_t i = 0; i < kReplayWarmUp; ++i) one();
        const double spent = timed([&] {
          for (std::uint64_t i = 0; i < steps; ++i) one();
        });
        if (options.check) worker.check();
        rows.push_back({bytes,
                        std::string(model.name) + "." + std::string(kind),
                        {{"sendrecv", spent / static_cast<double>(steps)}},
                        {}});
      });
    }
  return rows;
}

}  // namespace weft::bench
