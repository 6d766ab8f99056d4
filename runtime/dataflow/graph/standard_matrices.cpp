// Products of matrices.
#include <utility>

#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

PartialShape part(const PartialShape& shape, std::size_t count) {
  return PartialShape(shape.sizes().first(count));
}

Types infer_matmul(const Inference& in) {
  need_float(in, 0);
  need_one_dtype(in);
  const PartialShape& a = in.shape(0);
  const PartialShape& b = in.shape(1);
  if (a.dims() < 2 || b.dims() < 2) in.refuse("both need at least 2 dimensions");
  agreed(in, a[a.dims() - 1], b[b.dims() - 2]);
  const PartialShape batch = broadcast(in, part(a, a.dims() - 2), part(b, b.dims() - 2));
  Sizes sizes(batch.sizes().begin(), batch.sizes().end());
  sizes.push_back(a[a.dims() - 2]);
  sizes.push_back(b[b.dims() - 1]);
  return {{in.dtype(0), PartialShape(sizes)}};
}

TensorId transposed(GradientBuilder& builder, TensorId matrices) {
  const std::size_t dims = builder.graph().type(matrices).shape.dims();
  Sizes perm(dims);
  for (std::size_t i = 0; i < dims; ++i) perm[i] = static_cast<std::int64_t>(i);
  std::swap(perm[dims - 2], perm[dims - 1]);
  return builder.add("Transpose", {matrices}, {{"perm", perm}});
}

Gradients gradient_of_matmul(GradientBuilder& builder) {
  const TensorId a = builder.input(0);
  const TensorId b = builder.input(1);
  const TensorId g = builder.gradient(0);
  const auto is_matrix = [&](TensorId tensor) {
    return builder.graph().type(tensor).shape.dims() == 2;
  };
  const bool are_matrices = is_matrix(a) && is_matrix(b);
  Gradients gradients(2);
  if (builder.needs(0))
    gradients[0] =
        are_matrices
            ? builder.add("Gemm", {g, b}, {{"transB", 1}})
            : builder.add("weft.SumTo", {builder.add("MatMul", {g, transposed(builder, b)}), a});
  if (builder.needs(1))
    gradients[1] =
        are_matrices
            ? builder.add("Gemm", {a, g}, {{"transA", 1}})
            : builder.add("weft.SumTo", {builder.add("MatMul", {transposed(builder, a), g}), b});
  return gradients;
}

Types infer_gemm(const Inference& in) {
  need_float(in, 0);
  need_one_dtype(in);
  need_dims(in, 0, 2);
  need_dims(in, 1, 2);
  const std::size_t a = in.attributes().integer("transA") != 0 ? 1 : 0;
  const std::size_t b = in.attributes().integer("transB") != 0 ? 1 : 0;
  agreed(in, in.shape(0)[1 - a], in.shape(1)[b]);
  const PartialShape shape{in.shape(0)[a], in.shape(1)[1 - b]};
  if (in.has(2)) {
    if (in.shape(2).dims() > 2) in.refuse("input 2 has more than 2 dimensions");
    agreed(in, broadcast(in, shape, in.shape(2)), shape);
  }
  return {{in.dtype(0), shape}};
}

Gradients gradient_of_gemm(GradientBuilder& builder) {
  const std::int64_t a = builder.attributes().integer("transA") != 0 ? 1 : 0;
  const std::int64_t b = builder.attributes().integer("transB") != 0 ? 1 : 0;
  const double alpha = builder.attributes().number("alpha");
  const TensorId g = builder.gradient(0);
  const auto gemm = [&](TensorId x, std::int64_t of_x, TensorId y, std::int64_t of_y) {
    return builder.add("Gemm", {x, y}, {{"alpha", alpha}, {"transA", of_x}, {"transB", of_y}});
  };
  const TensorId x = builder.input(0);
  const TensorId y = builder.input(1);
  Gradients gradients(builder.inputs());
  if (builder.needs(0)) gradients[0] = a != 0 ? gemm(y, b, g, 1) : gemm(g, 0, y, 1 - b);
  if (builder.needs(1)) gradients[1] = b != 0 ? gemm(g, 1, x, a) : gemm(x, 1 - a, g, 0);
  if (builder.inputs() > 2 && builder.needs(2))
    gradients[2] = builder.add(
        "weft.SumTo",
        {builder.add("weft.Scale", {g}, {{"factor", builder.attributes().number("beta")}}),
         builder.input(2)});
  return gradients;
}

}  // namespace

void add_matrices(Definitions& all) {
  all.add({.name = "MatMul",
           .inputs = {{"A"}, {"B"}},
           .outputs = {{"Y"}},
           .infer = infer_matmul,
           .gradient = gradient_of_matmul});
  all.add({.name = "Gemm",
           .inputs = {{"A"}, {"B"}, {"C", Parameter::Count::optional}},
           .outputs = {{"Y"}},
           .attributes = {{"alpha", 1.0},
                          {"beta", 1.0},
                          {"transA", std::int64_t{0}},
                          {"transB", std::int64_t{0}}},
           .infer = infer_gemm,
           .gradient = gradient_of_gemm});
}

}  // namespace weft::dataflow
