// Element-wise combination of arrays: the arithmetic of reductions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/tensor.hpp"

namespace weft::kernels {

enum class Combination : std::uint8_t { sum, prod, min, max, bit_and, bit_or, bit_xor };

/// Computes to[i] = a[i] combined with b[i] for `count` elements of any alignment. `to` may equal
/// `a` or `b` but must not overlap them otherwise. Integers wrap around. min and max of floats are
/// IEEE 754-2019 minimum and maximum: NaN if either is NaN, -0 below 0. 16-bit floats are combined
/// in f32 and rounded to nearest, ties to even. Booleans: prod, min and bit_and are "and"; max and
/// bit_or are "or"; bit_xor is "different".
using Combine = void (*)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count);

/// The function for elements of `dtype`; null if there is none (bitwise operations on floats, sum
/// of booleans).
Combine combine_for(DType dtype, Combination combination) noexcept;

/// The same with two targets, by non-temporal stores that bypass the cache. Not fenced: call
/// stream_fence() afterwards. Neither target may overlap a source.
using CombineStreamed = void (*)(std::byte* to, std::byte* to_too, const std::byte* a,
                                 const std::byte* b, std::size_t count);
/// The function for sums of f32, f64 and 16-bit floats; null for everything else.
CombineStreamed combine_streamed_for(DType dtype, Combination combination) noexcept;
/// Orders all earlier streamed stores before every later store.
void stream_fence() noexcept;

/// Convert f16 or bf16 to f32, and back (rounded to nearest, ties to even).
void widen(float* to, const std::byte* from, DType from_dtype, std::size_t count) noexcept;
void narrow(std::byte* to, DType to_dtype, const float* from, std::size_t count) noexcept;

}  // namespace weft::kernels
