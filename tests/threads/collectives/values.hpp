// Tensors of every type with a pattern of their rank, and the expected results of collectives.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/kernels/combine.hpp"
#include "weft/collective.hpp"
#include "weft/world.hpp"

namespace weft::tests {

using Values = std::vector<double>;

/// Reads an element as a number. These tests use values that every type can hold.
inline double value_at(const Tensor& tensor, std::size_t i) {
  const std::byte* at = tensor.data() + i * size_of(tensor.dtype());
  const auto as = [at]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  float wide = 0;
  switch (tensor.dtype()) {
    case DType::f64:
      return as(double{});
    case DType::f32:
      return as(float{});
    case DType::i64:
      return as(std::int64_t{});
    case DType::i32:
      return as(std::int32_t{});
    case DType::i8:
      return as(std::int8_t{});
    case DType::f16:
    case DType::bf16:
      kernels::widen(&wide, at, tensor.dtype(), 1);
      return wide;
    default:
      return as(std::uint8_t{});
  }
}

inline void set_value(const Tensor& tensor, std::size_t i, double value) {
  std::byte* at = tensor.data() + i * size_of(tensor.dtype());
  const auto as = [at, value]<typename T>(T narrow) {
    narrow = static_cast<T>(value);
    std::memcpy(at, &narrow, sizeof narrow);
  };
  const auto wide = static_cast<float>(value);
  switch (tensor.dtype()) {
    case DType::f64:
      return as(double{});
    case DType::f32:
      return as(float{});
    case DType::i64:
      return as(std::int64_t{});
    case DType::i32:
      return as(std::int32_t{});
    case DType::i8:
      return as(std::int8_t{});
    case DType::f16:
    case DType::bf16:
      return kernels::narrow(at, tensor.dtype(), &wide, 1);
    default:
      return as(std::uint8_t{});
  }
}

inline void write(const Tensor& tensor, const Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) set_value(tensor, i, values[i]);
}

inline Values read(const Tensor& tensor) {
  Values values;
  for (std::size_t i = 0; i < tensor.bytes() / size_of(tensor.dtype()); ++i)
    values.push_back(value_at(tensor, i));
  return values;
}

/// A rank's input: small whole numbers above 0, no two ranks alike.
inline Values pattern(int rank, std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(1 + (i * 3 + rank * (1 + i % 2)) % 4));
  return values;
}

inline double combined(Reduction reduction, double a, double b) {
  const auto bits = [](double value) { return static_cast<std::int64_t>(value); };
  switch (reduction) {
    case Reduction::prod:
      return a * b;
    case Reduction::min:
      return std::fmin(a, b);
    case Reduction::max:
      return std::fmax(a, b);
    case Reduction::bit_and:
      return static_cast<double>(bits(a) & bits(b));
    case Reduction::bit_or:
      return static_cast<double>(bits(a) | bits(b));
    case Reduction::bit_xor:
      return static_cast<double>(bits(a) ^ bits(b));
    default:
      return a + b;
  }
}

/// The result for the inputs of ranks 0 to `ranks` - 1. Products are of four ranks at most (4^4 =
/// 256 is too much for a byte, which wraps).
inline Values combined(Reduction reduction, DType dtype, int ranks, std::int64_t count) {
  Values result = pattern(0, count);
  for (int r = 1; r < ranks; ++r) {
    const Values next = pattern(r, count);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = combined(reduction, result[i], next[i]);
  }
  for (double& value : result) {
    if (reduction == Reduction::avg) value /= ranks;
    if (reduction == Reduction::avg && dtype > DType::bf16) value = std::trunc(value);
    if (dtype == DType::i8) value = static_cast<std::int8_t>(static_cast<std::int64_t>(value));
    if (dtype == DType::u8) value = static_cast<std::uint8_t>(static_cast<std::int64_t>(value));
  }
  return result;
}

/// `values` as a tensor of type `dtype` holds them.
inline Values rounded(World& world, DType dtype, const Values& values) {
  const Tensor tensor = world.allocate(dtype, {static_cast<std::int64_t>(values.size())});
  write(tensor, values);
  return read(tensor);
}

}  // namespace weft::tests
