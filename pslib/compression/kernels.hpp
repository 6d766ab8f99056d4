// Gradients and what is left of them, in vectors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::pslib::kernels {

// Every result but the sums of squares has the same bits on every machine: each element is computed
// by itself, with products and sums rounded one by one, and a maximum has no order.

/// Elements that are quantised by the same scale.
inline constexpr std::size_t kQuantumBlock = 256;

/// The first element for which gradient + residual is not finite; `count` where all are.
std::size_t find_not_finite(const float* gradient, const float* residual,
                            std::size_t count) noexcept;

/// t = gradient + residual becomes t ~ scale * code, block by block: scale is max|t| / 127, and the
/// code t / scale rounded to the nearest, ties to even. The residual becomes t - scale * code.
/// Where max|t| / 127 is no normal number, scale and codes are 0. All t must be finite. A scale for
/// each block begun. Returns the sum of squares of the residual.
double quantise(std::int8_t* codes, float* scales, const float* gradient, float* residual,
                std::size_t count) noexcept;

/// scale * code of `count` elements, the first of which is element `first` of those that codes and
/// scales are of.
void dequantise(float* to, const std::int8_t* codes, const float* scales, std::size_t first,
                std::size_t count) noexcept;

/// The bits of the magnitude that is the k-th largest, 0 < k <= count.
std::uint32_t kth_magnitude(const float* values, std::size_t count, std::size_t k) noexcept;

/// Moves the k largest by magnitude, of which `least` is the last's, into `taken`, with their
/// places, in ascending order; of equals the first. They become 0 where they were. Returns the sum
/// of squares of what is left.
double take_largest(std::uint32_t* places, float* taken, float* values, std::size_t count,
                    std::size_t k, std::uint32_t least) noexcept;

}  // namespace weft::pslib::kernels
