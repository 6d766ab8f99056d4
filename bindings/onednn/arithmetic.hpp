// Sums and products of numbers; those of integers wrap around.
#pragma once

#include <type_traits>

#include "base/kernels/elements.hpp"

namespace weft::dataflow::onednn {

template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return kernels::WrappingSum<T>()(a, b);
  else
    return a + b;
}

template <typename T>
T product(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return kernels::WrappingProd<T>()(a, b);
  else
    return a * b;
}

}  // namespace weft::dataflow::onednn
