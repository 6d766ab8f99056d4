// Sums and products of elements.
#include "bindings/onednn/arithmetic.hpp"
#include "bindings/onednn/kernel_set.hpp"
#include "bindings/onednn/rows.hpp"

namespace weft::dataflow::onednn {
namespace {

/// The output's elements as `op` of all inputs', from left to right.
template <typename Op>
void combine_all(const Operands& operands, const Op& op) {
  const Tensor& y = operands.output(0);
  with_number(operands, y.dtype(), [&]<typename T>(T) {
    T* const to = reinterpret_cast<T*>(y.data());
    // An input in the output's memory comes first, before it is overwritten. Both operations
    // commute.
    std::size_t first = 0;
    for (std::size_t i = 0; i < operands.inputs(); ++i)
      if (operands.input(i).data() == y.data()) first = i;
    for_each_row(y.shape(), operands.shape(first), [&](auto at, auto from, auto step, auto count) {
      const T* const x = reinterpret_cast<const T*>(operands.input(first).data());
      for (std::int64_t k = 0; k < count; ++k) to[at + k] = x[from + k * step];
    });
    for (std::size_t i = 0; i < operands.inputs(); ++i) {
      if (i == first) continue;
      const T* const x = reinterpret_cast<const T*>(operands.input(i).data());
      for_each_row(y.shape(), operands.shape(i), [&](auto at, auto from, auto step, auto count) {
        for (std::int64_t k = 0; k < count; ++k) to[at + k] = op(to[at + k], x[from + k * step]);
      });
    }
  });
}

/// An input that has the output's shape, or `inputs()`.
std::size_t whole_input(const Operands& operands) {
  std::size_t i = 0;
  while (i < operands.inputs() && operands.shape(i) != operands.output(0).shape()) ++i;
  return i;
}

bool has_binary(const Operands& operands) {
  return operands.dtype(0) == DType::f32 && operands.output(0).bytes() > 0 &&
         whole_input(operands) < operands.inputs();
}

/// The sizes of `whole` and of `part`, which is broadcast to it, with neighbouring dimensions
/// joined that are broadcast both or neither: oneDNN has faster code for few dimensions.
std::pair<Dims, Dims> joined(const Shape& whole, const Shape& part) {
  Dims sizes{1};
  Dims of_part{1};
  for (std::size_t d = 0; d < whole.dims(); ++d) {
    if (whole[d] == 1) continue;
    const bool is_there = d + part.dims() >= whole.dims();
    const std::int64_t size = is_there ? part[d + part.dims() - whole.dims()] : 1;
    const bool was_broadcast = of_part.back() == 1;
    if (sizes.back() != 1 && was_broadcast != (size == 1)) {
      sizes.push_back(1);
      of_part.push_back(1);
    }
    sizes.back() *= whole[d];
    of_part.back() *= size;
  }
  return {sizes, of_part};
}

void build_binary(Routine& routine, const Operands& operands, dnnl::algorithm algorithm) {
  const std::size_t whole = whole_input(operands);
  const auto [sizes, of_part] = joined(operands.shape(whole), operands.shape(1 - whole));
  const Desc desc = row_major(sizes);
  const Desc part = row_major(of_part);
  routine.run<dnnl::binary>(
      {dnnl::binary::desc(algorithm, desc, part, desc), own_scratchpad(), routine.engine()},
      {{DNNL_ARG_SRC_0, routine.input(whole, desc)},
       {DNNL_ARG_SRC_1, routine.input(1 - whole, part)},
       {DNNL_ARG_DST, routine.output(0, desc)}});
}

/// A sum of several tensors of one shape.
bool has_sum(const Operands& operands) {
  if (operands.dtype(0) != DType::f32 || operands.inputs() < 2) return false;
  for (std::size_t i = 0; i < operands.inputs(); ++i)
    if (operands.shape(i) != operands.output(0).shape()) return false;
  return operands.output(0).bytes() > 0;
}

void build_sum(Routine& routine, const Operands& operands) {
  const Desc desc = row_major({operands.shape(0).elements()});
  const std::vector<Desc> all(operands.inputs(), desc);
  Routine::Arguments arguments{{DNNL_ARG_DST, routine.output(0, desc)}};
  for (std::size_t i = 0; i < operands.inputs(); ++i)
    arguments.emplace_back(DNNL_ARG_MULTIPLE_SRC + int(i), routine.input(i, desc));
  routine.run<dnnl::sum>(
      {desc, std::vector<float>(operands.inputs(), 1.0F), all, routine.engine(), own_scratchpad()},
      arguments);
}

void add_up(const Operands& operands) {
  combine_all(operands, [](auto a, auto b) { return sum(a, b); });
}
void multiply(const Operands& operands) {
  combine_all(operands, [](auto a, auto b) { return product(a, b); });
}

}  // namespace

void add_elementwise(KernelSet& set) {
  set.add_either(
      "Add", has_binary,
      [](Routine& routine, const Operands& operands) {
        build_binary(routine, operands, dnnl::algorithm::binary_add);
      },
      add_up);
  set.add_either(
      "Mul", has_binary,
      [](Routine& routine, const Operands& operands) {
        build_binary(routine, operands, dnnl::algorithm::binary_mul);
      },
      multiply);
  set.add_either("Sum", has_sum, build_sum, add_up);
}

}  // namespace weft::dataflow::onednn
