// How long the paper's GPUs compute: for steps that replay this time.
#pragma once

#include <cstddef>
#include <vector>

#include "benchmarks/workloads/layers.hpp"

namespace weft::bench {

/// Milliseconds of one sample on the paper's GPU, from its table 1.
double sample_ms(const Model& model);

/// Milliseconds of a step of `batch` samples on one GPU. The paper gives that of one sample. That
/// of 32 is inferred: the step with GPUDirect off (table 2) times the gain of 8 servers over local
/// training (figure 10) divided by 8; for the GRU by the LSTM's ratio. Other batches are on the
/// line through both. AlexNet and FCN-5 take the same time for every batch, as the paper says.
double compute_ms(const Model& model, std::size_t batch);

/// A layer's share of a step's time.
struct LayerTime {
  double forward_ms = 0;
  double backward_ms = 0;
};

/// The step's time by layer, by multiplications: a third is forwards.
std::vector<LayerTime> layer_times(const Model& model, std::size_t batch);

}  // namespace weft::bench
