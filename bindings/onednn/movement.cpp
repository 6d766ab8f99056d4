// Operators that move elements, of any dtype, or fill tensors.
#include <algorithm>
#include <cstring>

#include "bindings/onednn/kernel_set.hpp"
#include "bindings/onednn/rows.hpp"

namespace weft::dataflow::onednn {
namespace {

/// The bytes of one step over the dimensions before the axis.
std::size_t run_of(const Tensor& tensor, std::int64_t axis) {
  const Shape& shape = tensor.shape();
  if (axis < 0) axis += static_cast<std::int64_t>(shape.dims());
  std::size_t bytes = size_of(tensor.dtype());
  for (auto d = static_cast<std::size_t>(axis); d < shape.dims(); ++d)
    bytes *= static_cast<std::size_t>(shape[d]);
  return bytes;
}

/// Copies between a whole tensor and one of its parts along the axis, which begins after `before`
/// bytes of each step. Returns the bytes before the next part.
template <bool IntoPart>
std::size_t move_part(const Operands& operands, const Tensor& whole, const Tensor& part,
                      std::size_t before) {
  const std::int64_t axis = operands.attributes().integer("axis");
  const std::size_t step = run_of(whole, axis);
  const std::size_t run = run_of(part, axis);
  if (part.bytes() == 0) return before + run;
  std::byte* of_whole = whole.data() + before;
  std::byte* of_part = part.data();
  for (std::size_t steps = part.bytes() / run; steps > 0; --steps) {
    IntoPart ? std::memcpy(of_part, of_whole, run) : std::memcpy(of_whole, of_part, run);
    of_whole += step;
    of_part += run;
  }
  return before + run;
}

void concat(const Operands& operands) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < operands.inputs(); ++i)
    before = move_part<false>(operands, operands.output(0), operands.input(i), before);
}

/// Split and the gradient of Concat: input 0 in parts.
void split(const Operands& operands) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < operands.outputs(); ++i)
    before = move_part<true>(operands, operands.input(0), operands.output(i), before);
}

/// Elements as oneDNN moves them: as one number, or as several that stay together.
struct Unit {
  dnnl::memory::data_type type;
  std::int64_t count;
};

Unit unit_of(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (size_of(dtype)) {
    case 8:
      return {Type::s32, 2};
    case 4:
      return {Type::s32, 1};
    case 2:
      return {Type::u8, 2};
    default:
      return {Type::u8, 1};
  }
}

Dims row_major_strides(const Dims& sizes) {
  Dims strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

/// A reorder between two layouts of the result's sizes.
void build_transpose(Routine& routine, const Operands& operands) {
  const Shape& x = operands.shape(0);
  const Unit unit = unit_of(operands.dtype(0));
  Dims of_x = dims_of(x);
  of_x.push_back(unit.count);
  const Dims strides_of_x = row_major_strides(of_x);
  const Sizes& perm = operands.attributes().sizes("perm");
  Dims sizes;
  Dims strides;
  for (std::size_t d = 0; d < of_x.size(); ++d) {
    std::size_t at = d;
    if (d < x.dims()) at = perm.empty() ? x.dims() - 1 - d : static_cast<std::size_t>(perm[d]);
    sizes.push_back(of_x[at]);
    strides.push_back(strides_of_x[at]);
  }
  routine.reorder(routine.input(0, {sizes, unit.type, strides}),
                  routine.output(0, {sizes, unit.type, row_major_strides(sizes)}));
}

/// Fills with the attribute `value`.
void fill(const Operands& operands) {
  const Tensor& result = operands.output(0);
  const double value = operands.attributes().number("value");
  const auto count = static_cast<std::size_t>(result.shape().elements());
  if (count == 0) return;
  if (result.dtype() == DType::boolean) {
    std::fill_n(result.data(), count, std::byte{value != 0});
  } else if (value == 0) {
    std::memset(result.data(), 0, result.bytes());  // 0 in every type
  } else {
    with_number(operands, result.dtype(), [&]<typename T>(T) {
      std::fill_n(reinterpret_cast<T*>(result.data()), count, static_cast<T>(value));
    });
  }
}

void fill_with_zeros(const Operands& operands) {
  const Tensor& result = operands.output(0);
  if (result.bytes() > 0) std::memset(result.data(), 0, result.bytes());
}

}  // namespace

void add_movement(KernelSet& set) {
  set.add_loops("Concat", concat);
  set.add_loops("Split", split);
  set.add_loops("weft.ConcatGrad", split);
  set.add_primitives("Transpose", build_transpose, {OfNothing::zeros, true});
  set.add_loops("weft.Fill", fill);
  set.add_loops("weft.ZerosLike", fill_with_zeros);
}

}  // namespace weft::dataflow::onednn
