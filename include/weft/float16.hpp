// The 16-bit floats as C++ types: elements of tensors of DType::f16 and DType::bf16.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace weft {

/// An IEEE 754 half-precision float, the element of DType::f16: 11 bits of significand, finite
/// values up to 65504. A value of two bytes with any bits; compute in float. Conversion from float
/// rounds to the nearest, ties to even: what is too large becomes infinity, and a NaN stays one.
class f16 {  // NOLINT(readability-identifier-naming): named as its DType
 public:
  constexpr f16() noexcept = default;
  constexpr explicit f16(float value) noexcept : bits_(rounded(value)) {}
  static constexpr f16 from_bits(std::uint16_t bits) noexcept {
    f16 value;
    value.bits_ = bits;
    return value;
  }

  constexpr std::uint16_t bits() const noexcept { return bits_; }
  /// Exact.
  constexpr operator float() const noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits_ & 0x8000U) << 16U;
    const std::uint32_t rest = bits_ & 0x7fffU;
    if (rest >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (rest & 0x3ffU) << 13U);
    if (rest >= 0x400U) return std::bit_cast<float>(sign | ((rest << 13U) + (112U << 23U)));
    // A multiple of 2^-24, which float holds as a normal number.
    const float small = static_cast<float>(rest) * std::bit_cast<float>(103U << 23U);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(small));
  }

 private:
  static constexpr std::uint16_t rounded(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16U & 0x8000U;
    const std::uint32_t rest = bits & 0x7fffffffU;
    std::uint32_t half = 0;
    if (rest > 0x7f800000U) {
      half = 0x7e00U | (rest >> 13U & 0x3ffU);  // quiet, with the upper bits of its payload
    } else if (rest >= 0x47800000U) {
      half = 0x7c00U;  // 65536 and above
    } else if (rest >= 0x38800000U) {
      half = nearest(rest - (112U << 23U), 13U);  // a carry leads to the next exponent, or infinity
    } else if (rest >= 0x33000000U) {
      const std::uint32_t shift = 126U - (rest >> 23U);
      half = nearest((rest & 0x7fffffU) | 0x800000U, shift);
    }
    return static_cast<std::uint16_t>(sign | half);
  }
  /// `number` / 2^`shift`, rounded to the nearest, ties to even.
  static constexpr std::uint32_t nearest(std::uint32_t number, std::uint32_t shift) noexcept {
    const std::uint32_t is_odd = number >> shift & 1U;
    return (number + (1U << (shift - 1U)) - 1U + is_odd) >> shift;
  }

  std::uint16_t bits_ = 0;
};

/// The upper half of a float, the element of DType::bf16: 8 bits of significand and float's range.
/// A value of two bytes with any bits; compute in float. Conversion from float rounds as f16's.
class bf16 {  // NOLINT(readability-identifier-naming): named as its DType
 public:
  constexpr bf16() noexcept = default;
  constexpr explicit bf16(float value) noexcept : bits_(rounded(value)) {}
  static constexpr bf16 from_bits(std::uint16_t bits) noexcept {
    bf16 value;
    value.bits_ = bits;
    return value;
  }

  constexpr std::uint16_t bits() const noexcept { return bits_; }
  /// Exact.
  constexpr operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16U);
  }

 private:
  static constexpr std::uint16_t rounded(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t is_odd = bits >> 16U & 1U;
    return static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : bits + 0x7fffU + is_odd) >> 16U);
  }

  std::uint16_t bits_ = 0;
};

static_assert(std::is_trivially_copyable_v<f16> && sizeof(f16) == 2);
static_assert(std::is_trivially_copyable_v<bf16> && sizeof(bf16) == 2);

}  // namespace weft
