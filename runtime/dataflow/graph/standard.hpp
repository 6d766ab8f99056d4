// weft's own definitions by subject, and what their shape functions share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/graph.hpp"

namespace weft::dataflow {

void add_state(Definitions& all);          // feeds, variables, fetches, constants, transfers
void add_elementwise(Definitions& all);    // Add, Mul, Sum, Relu, ..., Dropout
void add_matrices(Definitions& all);       // MatMul, Gemm
void add_windows(Definitions& all);        // Conv, MaxPool, AveragePool
void add_normalisation(Definitions& all);  // BatchNormalization
void add_recurrent(Definitions& all);      // LSTM, GRU
void add_movement(Definitions& all);       // Concat, Split, Reshape, Transpose
void add_reductions(Definitions& all);     // ReduceSum, ReduceMean, ReduceMax
void add_lookups(Definitions& all);        // Gather, SoftmaxCrossEntropyLoss

using Types = std::vector<TensorType>;
using Gradients = std::vector<TensorId>;

inline bool is_float(DType dtype) noexcept {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}
inline bool is_index(DType dtype) noexcept { return dtype == DType::i64 || dtype == DType::i32; }

/// Refuses inputs `first` and later ones that aren't of the dtype of input 0.
void need_one_dtype(const Inference& in);
void need_float(const Inference& in, std::size_t i);
void need_dims(const Inference& in, std::size_t i, std::size_t dims);
/// The size that both sizes agree on, of which either may be open. Refuses two known ones.
std::int64_t agreed(const Inference& in, std::int64_t a, std::int64_t b);
/// Both shapes agreed, dimension by dimension.
PartialShape agreed(const Inference& in, const PartialShape& a, const PartialShape& b);
/// NumPy's and ONNX's rule: align at the last dimension, a size of 1 becomes the other one.
PartialShape broadcast(const Inference& in, const PartialShape& a, const PartialShape& b);
/// `axis`, counted from the end if negative. Refuses one outside [-dims, dims).
std::size_t axis_of(const Inference& in, std::int64_t axis, std::size_t dims);
/// The product of sizes from `first` to before `last`; open if one of them is, unless one is 0.
std::int64_t product(const PartialShape& shape, std::size_t first, std::size_t last);
/// The DType of a name such as "f32"; refuses others.
DType dtype_named(const Inference& in, const std::string& name);

/// One output like input `i`.
inline Definition::InferFunction like_input(std::size_t i) {
  return [i](const Inference& in) { return Types{in.input(i)}; };
}

}  // namespace weft::dataflow
