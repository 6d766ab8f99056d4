// Steps of a model on any number of ranks, each of which is a worker and a server, as a dataflow
// graph with forward and backward nodes by layer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmarks/harness/payload.hpp"
#include "benchmarks/workloads/compute_times.hpp"
#include "benchmarks/workloads/matrix_products.hpp"
#include "benchmarks/workloads/models.hpp"
#include "weft/executor.hpp"

namespace weft::bench {

/// Sleeps that add up: one that lasted too long makes the next ones shorter, and very short ones
/// are put off. One thread at a time.
class Sleeper {
 public:
  void sleep(std::chrono::nanoseconds time);

 private:
  std::chrono::nanoseconds owed_{};
};

/// A layer's computation of a step.
enum class Compute : std::uint8_t {
  replayed,  ///< sleeps for the layer's share of the step's time on the paper's GPU
  real       ///< multiplies matrices as often as the layer does
};

/// A step of a model. A layer's forward node reads its parameters, its backward node writes their
/// gradients, and both compute; the servers add all workers' gradients up. With replayed
/// computation ranks compute side by side on any number of processors, while tensors are read,
/// written and moved as in training.
class ReplayedTraining {
 public:
  ReplayedTraining(const Model& model, int ranks, Compute compute = Compute::replayed);

  const dataflow::Graph& graph() const noexcept { return graph_; }
  /// They refer to this object.
  dataflow::Kernels kernels(int rank);
  /// Samples of the next steps.
  void set_batch(std::size_t batch);
  /// Runs a step. Throws Error.
  void step(dataflow::Executor& executor);
  /// Throws std::runtime_error unless the rank's parameters are what the steps so far give.
  void check(dataflow::Executor& executor, int rank) const;

 private:
  /// `updates`: the inputs of each part's update, which begin with the part's parameter; the
  /// worker's gradient is added.
  void add_worker(int rank, std::vector<std::vector<dataflow::TensorId>>& updates);

  void compute_forward(std::size_t layer);
  void compute_backward(std::size_t layer);

  const Model& model_;
  const int ranks_;
  const Compute compute_;
  std::size_t batch_ = 1;
  std::vector<Layer> layers_;
  std::vector<Part> parts_;
  dataflow::Graph graph_;
  std::vector<LayerTime> times_;
  Sleeper sleeper_;
  MatrixProducts products_;
  std::uint64_t steps_ = 0;
  ExpectedParameters expected_;
};

}  // namespace weft::bench
