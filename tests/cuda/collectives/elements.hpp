// Elements of every type for collectives on GPUs, and what their tensors hold.
#pragma once

#include <array>
#include <random>
#include <vector>

#include "tests/cuda/slots/fabrics.hpp"
#include "weft/collective.hpp"

namespace weft::tests {

using Bytes = std::vector<std::byte>;

constexpr std::array kDtypes{DType::f64, DType::f32, DType::f16, DType::bf16,   DType::i64,
                             DType::i32, DType::i8,  DType::u8,  DType::boolean};
constexpr std::array kReductions{Reduction::sum,    Reduction::prod,   Reduction::min,
                                 Reduction::max,    Reduction::avg,    Reduction::bit_and,
                                 Reduction::bit_or, Reduction::bit_xor};

inline bool is_allowed(DType dtype, Reduction reduction) {
  if (dtype == DType::boolean) return reduction != Reduction::sum && reduction != Reduction::avg;
  return dtype > DType::bf16 || reduction < Reduction::bit_and;
}

/// Any bits; for arithmetic of floats only finite numbers below 2, some of them tiny, and pairs
/// that overflow in no order.
inline Bytes elements(DType dtype, Reduction reduction, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const bool is_compared = reduction == Reduction::min || reduction == Reduction::max;
  if (dtype > DType::bf16 || is_compared) return bytes;
  const std::size_t size = size_of(dtype);
  for (std::size_t last = size - 1; last < bytes.size(); last += size)
    bytes[last] &= std::byte{0xbf};
  return bytes;
}

inline Tensor put_on(World& world, Memory memory, DType dtype, Bytes bytes) {
  const Shape shape{static_cast<std::int64_t>(bytes.size() / size_of(dtype))};
  Tensor tensor = world.allocate(dtype, shape, memory);
  world.copy(Tensor::wrap(bytes.data(), dtype, shape), tensor);
  return tensor;
}

inline Bytes bytes_of(World& world, const Tensor& tensor) {
  Bytes bytes(tensor.bytes());
  world.copy(tensor, Tensor::wrap(bytes.data(), tensor.dtype(), tensor.shape()));
  return bytes;
}

}  // namespace weft::tests
