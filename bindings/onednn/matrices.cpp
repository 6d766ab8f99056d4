// Products of matrices.
#include "bindings/onednn/kernel_set.hpp"
#include "bindings/onednn/rows.hpp"

namespace weft::dataflow::onednn {
namespace {

/// Sizes with ones in front, so that there are `count`.
Dims widened(const Shape& shape, std::size_t count) {
  Dims dims(count - shape.dims(), 1);
  for (std::size_t i = 0; i < shape.dims(); ++i) dims.push_back(shape[i]);
  return dims;
}

std::int64_t product_of(const Shape& shape, std::size_t count) {
  std::int64_t all = 1;
  for (std::size_t i = 0; i < count; ++i) all *= shape[i];
  return all;
}

void build_matmul(Routine& routine, const Operands& operands) {
  const Shape& shape = operands.output(0).shape();
  Dims a = widened(operands.shape(0), shape.dims());
  Dims b = widened(operands.shape(1), shape.dims());
  Dims y = dims_of(shape);
  // Of one matrix B, all rows of A are one matrix too.
  if (product_of(operands.shape(1), operands.shape(1).dims() - 2) == 1) {
    const std::int64_t depth = a.back();
    const std::int64_t columns = b.back();
    a = {operands.shape(0).elements() / depth, depth};
    b = {depth, columns};
    y = {shape.elements() / columns, columns};
  }
  const dnnl::matmul::desc desc(row_major(a), row_major(b), row_major(y));
  routine.run<dnnl::matmul>({desc, own_scratchpad(), routine.engine()},
                            {{DNNL_ARG_SRC, routine.input(0, row_major(a))},
                             {DNNL_ARG_WEIGHTS, routine.input(1, row_major(b))},
                             {DNNL_ARG_DST, routine.output(0, row_major(y))}});
}

/// A matrix that is stored in row-major order, or transposed.
Desc matrix(const Shape& stored, bool is_transposed) {
  if (!is_transposed) return row_major(dims_of(stored));
  return {{stored[1], stored[0]}, dnnl::memory::data_type::f32, Dims{1, stored[1]}};
}

/// Fills Y with beta C.
void start_with_c(const Operands& operands) {
  const auto y = operands.output(0).as<float>();
  const auto beta = static_cast<float>(operands.attributes().number("beta"));
  const auto c = operands.input(2).as<float>();
  for_each_row(operands.output(0).shape(), operands.shape(2),
               [&](auto at, auto from, auto step, auto count) {
                 for (std::int64_t k = 0; k < count; ++k)
                   y[std::size_t(at + k)] = beta * c[std::size_t(from + k * step)];
               });
}

/// Y += alpha A B, or Y = alpha A B without C.
void build_gemm(Routine& routine, const Operands& operands) {
  const Desc a = matrix(operands.shape(0), operands.attributes().integer("transA") != 0);
  const Desc b = matrix(operands.shape(1), operands.attributes().integer("transB") != 0);
  const Desc y = row_major(dims_of(operands.output(0).shape()));
  dnnl::primitive_attr attributes = own_scratchpad();
  const auto alpha = static_cast<float>(operands.attributes().number("alpha"));
  if (alpha != 1.0F) attributes.set_output_scales(0, {alpha});
  if (operands.has(2)) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  routine.run<dnnl::matmul>({dnnl::matmul::desc(a, b, y), attributes, routine.engine()},
                            {{DNNL_ARG_SRC, routine.input(0, a)},
                             {DNNL_ARG_WEIGHTS, routine.input(1, b)},
                             {DNNL_ARG_DST, routine.output(0, y)}});
}

}  // namespace

void add_matrices(KernelSet& set) {
  set.add_primitives("MatMul", build_matmul, {OfNothing::zeros});
  const Kernel product = set.primitives("Gemm", build_gemm, {OfNothing::zeros});
  set.add("Gemm", [name = std::string("Gemm"), product](KernelCall& call) {
    const Operands operands(call, name);
    operands.need_f32();
    if (operands.has(2)) start_with_c(operands);
    // A product over no elements adds nothing to C.
    if (!operands.has(2) || operands.input(0).bytes() > 0) product(call);
  });
}

}  // namespace weft::dataflow::onednn
