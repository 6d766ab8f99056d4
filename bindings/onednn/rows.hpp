// Loops over tensors of which one is broadcast to the other's shape.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "bindings/onednn/operands.hpp"

namespace weft::dataflow::onednn {

/// Calls act(at, from, step, count) for each row of `whole`, its last dimension: `count` elements
/// from `at` on belong to those of `part` from `from` on, `step` (0 or 1) apart. `part` is
/// broadcast to `whole`: it may lack the first dimensions and have others of size 1.
template <typename Act>
void for_each_row(const Shape& whole, const Shape& part, const Act& act) {
  const std::size_t dims = whole.dims();
  std::array<std::int64_t, Shape::kMaxDims> stride{};
  std::int64_t elements = 1;
  for (std::size_t d = dims; d-- > 0;) {
    if (d + part.dims() < dims) continue;
    const std::int64_t size = part[d + part.dims() - dims];
    stride[d] = size == 1 ? 0 : elements;
    elements *= size;
  }
  const std::int64_t count = dims == 0 ? 1 : whole[dims - 1];
  if (whole.elements() == 0) return;
  const std::int64_t step = dims == 0 ? 0 : stride[dims - 1];
  std::array<std::int64_t, Shape::kMaxDims> index{};
  std::int64_t from = 0;
  for (std::int64_t at = 0;; at += count) {
    act(at, from, step, count);
    std::size_t d = dims == 0 ? 0 : dims - 1;
    for (; d > 0; --d) {
      from += stride[d - 1];
      if (++index[d - 1] < whole[d - 1]) break;
      from -= stride[d - 1] * whole[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/// Calls act(T()) for the number type T of `dtype`. Refuses the other types.
template <typename Act>
void with_number(const Operands& operands, DType dtype, const Act& act) {
  if (dtype == DType::f64) return act(double());
  if (dtype == DType::f32) return act(float());
  if (dtype == DType::i64) return act(std::int64_t());
  if (dtype == DType::i32) return act(std::int32_t());
  if (dtype == DType::i8) return act(std::int8_t());
  if (dtype == DType::u8) return act(std::uint8_t());
  operands.refuse("weft::operators computes in f32, f64 or integers here");
}

}  // namespace weft::dataflow::onednn
