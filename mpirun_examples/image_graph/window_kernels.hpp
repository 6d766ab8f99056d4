// Convolution and max pooling, forwards and backwards.
#pragma once

#include "weft/executor.hpp"

namespace images {

void conv(weft::dataflow::KernelCall& call);
void conv_grad_input(weft::dataflow::KernelCall& call);
void conv_grad_weight(weft::dataflow::KernelCall& call);
void max_pool(weft::dataflow::KernelCall& call);
void max_pool_grad(weft::dataflow::KernelCall& call);

}  // namespace images
