// A reference for the LSTM's loss, in double precision and plain loops: slow, but simple.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lstm.hpp"

namespace charlm::reference {

/// The six tensors, one array each, with the order and shapes of LstmTensors.
struct Tensors {
  explicit Tensors(const LstmSizes& sizes);

  std::vector<std::vector<double>> arrays;
};

/// The value that Lstm::train returns for the same arguments.
double loss(const LstmSizes& sizes, const Tensors& parameters, int sequences, int length,
            std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets);

/// The logits after one sequence's tokens, from a zero state.
std::vector<double> logits(const LstmSizes& sizes, const Tensors& parameters,
                           std::span<const std::int32_t> tokens);

}  // namespace charlm::reference
