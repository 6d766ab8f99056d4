#include "runtime/dataflow/graph/standard.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weft::dataflow {

void need_one_dtype(const Inference& in) {
  for (std::size_t i = 1; i < in.inputs(); ++i)
    if (in.has(i) && in.dtype(i) != in.dtype(0))
      in.refuse(fmt::format("input {} is not of the dtype of input 0", i));
}

void need_float(const Inference& in, std::size_t i) {
  if (!is_float(in.dtype(i))) in.refuse(fmt::format("input {} is no floating-point tensor", i));
}

void need_dims(const Inference& in, std::size_t i, std::size_t dims) {
  if (in.shape(i).dims() != dims)
    in.refuse(
        fmt::format("input {} has {} dimensions; {} are needed", i, in.shape(i).dims(), dims));
}

std::int64_t agreed(const Inference& in, std::int64_t a, std::int64_t b) {
  if (a == kAnySize) return b;
  if (b != kAnySize && a != b) in.refuse(fmt::format("sizes {} and {} must be equal", a, b));
  return a;
}

PartialShape agreed(const Inference& in, const PartialShape& a, const PartialShape& b) {
  if (a.dims() != b.dims())
    in.refuse(fmt::format("{} and {} must be one shape", a.text(), b.text()));
  Sizes sizes;
  for (std::size_t i = 0; i < a.dims(); ++i) sizes.push_back(agreed(in, a[i], b[i]));
  return PartialShape(sizes);
}

PartialShape broadcast(const Inference& in, const PartialShape& a, const PartialShape& b) {
  const std::size_t dims = std::max(a.dims(), b.dims());
  Sizes sizes(dims);
  for (std::size_t i = 0; i < dims; ++i) {
    const std::int64_t x = i + a.dims() < dims ? 1 : a[i + a.dims() - dims];
    const std::int64_t y = i + b.dims() < dims ? 1 : b[i + b.dims() - dims];
    if (x == 1 || y == 1)
      sizes[i] = x == 1 ? y : x;
    else
      sizes[i] = agreed(in, x, y);  // an open size can only be 1 or the other's
  }
  return PartialShape(sizes);
}

std::size_t axis_of(const Inference& in, std::int64_t axis, std::size_t dims) {
  const auto count = static_cast<std::int64_t>(dims);
  if (axis < -count || axis >= count)
    in.refuse(fmt::format("axis {} of a tensor with {} dimensions", axis, dims));
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

std::int64_t product(const PartialShape& shape, std::size_t first, std::size_t last) {
  std::int64_t all = 1;
  for (std::size_t i = first; i < last; ++i)
    if (shape[i] == 0) return 0;
  for (std::size_t i = first; i < last; ++i) {
    if (shape[i] == kAnySize) return kAnySize;
    all *= shape[i];
  }
  return all;
}

DType dtype_named(const Inference& in, const std::string& name) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::i8, DType::u8, DType::boolean})
    if (weft::name(dtype) == name) return dtype;
  in.refuse(fmt::format("no dtype is called '{}'", name));
}

}  // namespace weft::dataflow
