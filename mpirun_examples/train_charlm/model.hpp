// The LSTM's tensors as a table of the parameter server.
#pragma once

#include <vector>

#include "lstm.hpp"
#include "weft/pslib.hpp"

namespace charlm {

/// The table's tensors, in the shapes that LstmTensors documents.
std::vector<weft::pslib::TensorSpec> tensor_specs(const LstmSizes& sizes);

/// This worker's parameters and gradients in the table's memory: the LSTM reads and writes them in
/// place. 64-byte aligned; valid while `table` lives.
LstmTensors<float> bind_parameters(const weft::pslib::Table& table);
LstmTensors<float> bind_gradients(const weft::pslib::Table& table);

}  // namespace charlm
