// Kernels for the graph of the network, in plain loops.
#pragma once

#include "weft/executor.hpp"

namespace images {

/// They take the cases that the network has: f32, windows of two dimensions, convolutions with
/// stride 1. Others they refuse by std::invalid_argument. The update of variables is pslib's.
weft::dataflow::Kernels make_kernels();

}  // namespace images
