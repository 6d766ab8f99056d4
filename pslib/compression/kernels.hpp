// Vectorized compression of gradients and residuals.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::pslib::kernels {

// Every result except the sums of squares has the same bits on every machine: each element is
// computed independently with single rounding of each product and sum, and a maximum does not
// depend on order.

/// Elements quantised with the same scale.
inline constexpr std::size_t kQuantumBlock = 256;

/// Index of the first element for which gradient + residual is not finite; `count` if all are
/// finite.
std::size_t find_not_finite(const float* gradient, const float* residual,
                            std::size_t count) noexcept;

/// Quantises t = gradient + residual block by block to t ~ scale * code: scale is max|t| / 127, and
/// code is t / scale rounded to the nearest, ties to even. The residual becomes t - scale * code.
/// If max|t| / 127 is not a normal number, scale and codes are 0. All t must be finite. `scales`
/// has one entry per started block. Returns the sum of squares of the residual.
double quantise(std::int8_t* codes, float* scales, const float* gradient, float* residual,
                std::size_t count) noexcept;

/// Writes scale * code of `count` elements. `codes` and `scales` start at element 0; the first
/// element written is `first`.
void dequantise(float* to, const std::int8_t* codes, const float* scales, std::size_t first,
                std::size_t count) noexcept;

/// The bits of the k-th largest magnitude, 0 < k <= count.
std::uint32_t kth_magnitude(const float* values, std::size_t count, std::size_t k) noexcept;

/// Moves the k elements of largest magnitude into `taken`, with their indices in ascending order;
/// `least` is the k-th largest magnitude's bits, and the first of equals are taken. Moved elements
/// become 0 in `values`. Returns the sum of squares of the rest.
double take_largest(std::uint32_t* places, float* taken, float* values, std::size_t count,
                    std::size_t k, std::uint32_t least) noexcept;

}  // namespace weft::pslib::kernels
