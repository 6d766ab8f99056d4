// The layers of the paper's models: which variables belong together, and how much each computes.
#pragma once

#include <cstddef>
#include <vector>

#include "benchmarks/workloads/models.hpp"

namespace weft::bench {

/// Variables that one operator reads, such as weights and biases of a convolution.
struct Layer {
  std::size_t first = 0;       ///< its first variable
  std::size_t variables = 0;   ///< their number, in the model's order
  double multiplications = 0;  ///< of one sample, forwards
};

/// The layers in the order in which a sample goes through them. A convolution multiplies its
/// weights once for each place of its output; images have the sizes of the published models (224 x
/// 224, Inception-v3 299 x 299). The recurrent models have the paper's 80 steps, in which every
/// weight counts.
std::vector<Layer> layers_of(const Model& model);

}  // namespace weft::bench
