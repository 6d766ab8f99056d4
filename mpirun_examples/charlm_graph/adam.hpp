// Adam as an operator of our own, which overwrites the variables that it gets.
#pragma once

#include "weft/executor.hpp"

namespace charlm {

/// "charlm.Adam": (parameter, first moment, second moment, number of updates, gradient). It
/// overwrites the first four, so it is their assignment. Source: Kingma and Ba 2015; as
/// weft::pslib::Optimizer::adam.
weft::dataflow::Definition adam();
void compute_adam(weft::dataflow::KernelCall& call);

}  // namespace charlm
