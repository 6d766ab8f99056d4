// The LSTM's tensors as a table of the parameter server.
#pragma once

#include <vector>

#include "lstm.hpp"
#include "weft/pslib.hpp"

namespace charlm {

/// What the table holds, in the shapes that LstmTensors documents.
std::vector<weft::pslib::TensorSpec> tensor_specs(const LstmSizes& sizes);

/// This worker's parameters and gradients where the table keeps them: the LSTM reads and writes
/// them in place. Valid while `table` lives; at 64-byte boundaries.
LstmTensors<float> bind_parameters(const weft::pslib::Table& table);
LstmTensors<float> bind_gradients(const weft::pslib::Table& table);

}  // namespace charlm
