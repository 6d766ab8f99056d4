// Arrays combined element by element: the arithmetic of reductions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/tensor.hpp"

namespace weft::kernels {

enum class Combination : std::uint8_t { sum, prod, min, max, bit_and, bit_or, bit_xor };

/// to[i] = a[i] with b[i], for `count` elements of any alignment. `to` may be `a` or `b`, and must
/// not overlap them otherwise. Integers wrap around. min and max of floats are IEEE 754's minimum
/// and maximum: NaN where either is, -0 below 0. 16-bit floats are combined in f32 and rounded to
/// the nearest, ties to even. Booleans: prod, min, bit_and are "and", max and bit_or "or", bit_xor
/// "different".
using Combine = void (*)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count);

/// For elements of `dtype`; null where it has no such combination: bits of floats, sum of
/// booleans.
Combine combine_for(DType dtype, Combination combination) noexcept;

/// The same into two places at once, past the cache: sums of f32 and f64 and of 16-bit floats; null
/// for others. Not fenced: end with stream_fence(). Neither may overlap a source.
using CombineStreamed = void (*)(std::byte* to, std::byte* to_too, const std::byte* a,
                                 const std::byte* b, std::size_t count);
CombineStreamed combine_streamed_for(DType dtype, Combination combination) noexcept;
/// Orders what was streamed before every later store.
void stream_fence() noexcept;

/// f16 or bf16 to f32, and back (rounded to the nearest, ties to even).
void widen(float* to, const std::byte* from, DType from_dtype, std::size_t count) noexcept;
void narrow(std::byte* to, DType to_dtype, const float* from, std::size_t count) noexcept;

}  // namespace weft::kernels
