// Operators that move elements and compute nothing.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

Types infer_concat(const Inference& in) {
  need_one_dtype(in);
  const std::size_t dims = in.shape(0).dims();
  const std::size_t axis = axis_of(in, in.attributes().integer("axis"), dims);
  Sizes sizes(in.shape(0).sizes().begin(), in.shape(0).sizes().end());
  for (std::size_t i = 1; i < in.inputs(); ++i) {
    need_dims(in, i, dims);
    for (std::size_t d = 0; d < dims; ++d) {
      const std::int64_t size = in.shape(i)[d];
      if (d != axis)
        sizes[d] = agreed(in, sizes[d], size);
      else
        sizes[d] = sizes[d] == kAnySize || size == kAnySize ? kAnySize : sizes[d] + size;
    }
  }
  return {{in.dtype(0), PartialShape(sizes)}};
}

Gradients gradient_of_concat(GradientBuilder& builder) {
  std::vector<TensorId> inputs{builder.gradient(0)};
  for (std::size_t i = 0; i < builder.inputs(); ++i) inputs.push_back(builder.input(i));
  const TensorId parts = builder.add("weft.ConcatGrad", inputs, builder.attributes());
  Gradients gradients;
  for (std::size_t i = 0; i < builder.inputs(); ++i)
    gradients.push_back({parts.node, static_cast<std::int32_t>(i)});
  return gradients;
}

Types infer_concat_gradient(const Inference& in) {
  Types types;
  for (std::size_t i = 1; i < in.inputs(); ++i) types.push_back(in.input(i));
  return types;
}

/// The sizes of the parts along the axis.
Sizes parts_of(const Inference& in, std::int64_t size) {
  Sizes parts = in.attributes().sizes("split");
  const std::int64_t count = in.attributes().integer("num_outputs");
  if (parts.empty() == (count == 0)) in.refuse("give either split or num_outputs");
  if (count < 0) in.refuse("num_outputs is negative");
  if (parts.empty()) {
    if (size != kAnySize && size % count != 0)
      in.refuse(fmt::format("{} cannot be split into {} equal parts", size, count));
    return Sizes(static_cast<std::size_t>(count), size == kAnySize ? kAnySize : size / count);
  }
  std::int64_t all = 0;
  for (const std::int64_t part : parts) {
    if (part < 0) in.refuse("split has a negative size");
    all += part;
  }
  agreed(in, size, all);
  return parts;
}

Types infer_split(const Inference& in) {
  const PartialShape& x = in.shape(0);
  const std::size_t axis = axis_of(in, in.attributes().integer("axis"), x.dims());
  Types types;
  for (const std::int64_t part : parts_of(in, x[axis])) {
    Sizes sizes(x.sizes().begin(), x.sizes().end());
    sizes[axis] = part;
    types.push_back({in.dtype(0), PartialShape(sizes)});
  }
  return types;
}

Gradients gradient_of_split(GradientBuilder& builder) {
  std::vector<TensorId> parts;
  for (std::size_t i = 0; i < builder.outputs(); ++i) parts.push_back(builder.gradient_or_zeros(i));
  return {builder.add("Concat", parts, {{"axis", builder.attributes().integer("axis")}})};
}

/// The size that -1 stands for: the elements of `x` by those of the other sizes. Dimensions that
/// the new shape copies (0) count on neither side, so they may be open.
std::int64_t remaining(const Inference& in, const PartialShape& x, const Sizes& wanted) {
  Sizes from;
  std::int64_t others = 1;
  for (std::size_t i = 0; i < x.dims(); ++i)
    if (i >= wanted.size() || wanted[i] != 0) from.push_back(x[i]);
  for (const std::int64_t size : wanted)
    if (size > 0) others *= size;
  const std::int64_t all = product(PartialShape(from), 0, from.size());
  if (all == kAnySize) return kAnySize;
  if (all % others != 0) in.refuse(fmt::format("{} elements by {}", all, others));
  return all / others;
}

Types infer_reshape(const Inference& in) {
  const PartialShape& x = in.shape(0);
  const Sizes& wanted = in.attributes().sizes("shape");
  if (std::count(wanted.begin(), wanted.end(), -1) > 1) in.refuse("two sizes are -1");
  Sizes sizes = wanted;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < -1) in.refuse("a size is below -1");
    if (wanted[i] == 0 && i >= x.dims())
      in.refuse("a size of 0 copies a dimension that isn't there");
    if (wanted[i] == 0) sizes[i] = x[i];
    if (wanted[i] == -1) sizes[i] = remaining(in, x, wanted);
  }
  const PartialShape shape(sizes);
  const std::int64_t before = product(x, 0, x.dims());
  const std::int64_t after = product(shape, 0, sizes.size());
  if (before != kAnySize && after != kAnySize) agreed(in, before, after);
  return {{in.dtype(0), shape}};
}

Types infer_reshape_like(const Inference& in) {
  const std::int64_t before = product(in.shape(0), 0, in.shape(0).dims());
  const std::int64_t after = product(in.shape(1), 0, in.shape(1).dims());
  if (before != kAnySize && after != kAnySize) agreed(in, before, after);
  return {{in.dtype(0), in.shape(1)}};
}

Sizes permutation(const Attributes& attributes, std::size_t dims) {
  Sizes perm = attributes.sizes("perm");
  if (perm.empty())
    for (std::size_t i = dims; i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  return perm;
}

Types infer_transpose(const Inference& in) {
  const PartialShape& x = in.shape(0);
  const Sizes perm = permutation(in.attributes(), x.dims());
  if (perm.size() != x.dims()) in.refuse("perm must name every dimension once");
  Sizes sizes(perm.size());
  std::vector<bool> seen(perm.size(), false);
  for (std::size_t i = 0; i < perm.size(); ++i) {
    const auto from = static_cast<std::size_t>(perm[i]);
    if (perm[i] < 0 || from >= perm.size() || seen[from])
      in.refuse("perm must name every dimension once");
    seen[from] = true;
    sizes[i] = x[from];
  }
  return {{in.dtype(0), PartialShape(sizes)}};
}

Gradients gradient_of_transpose(GradientBuilder& builder) {
  const Sizes perm =
      permutation(builder.attributes(), builder.graph().type(builder.input(0)).shape.dims());
  Sizes inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return {builder.add("Transpose", {builder.gradient(0)}, {{"perm", inverse}})};
}

}  // namespace

void add_movement(Definitions& all) {
  all.add({.name = "Concat",
           .inputs = {{"inputs", Parameter::Count::variadic}},
           .outputs = {{"concat_result"}},
           .attributes = {{"axis", std::int64_t{0}, true}},
           .infer = infer_concat,
           .gradient = gradient_of_concat});
  all.add({.name = "weft.ConcatGrad",
           .inputs = {{"dY"}, {"inputs", Parameter::Count::variadic}},
           .outputs = {{"dinputs", Parameter::Count::variadic}},
           .attributes = {{"axis", std::int64_t{0}, true}},
           .infer = infer_concat_gradient});
  all.add({.name = "Split",
           .inputs = {{"input"}},
           .outputs = {{"outputs", Parameter::Count::variadic}},
           .attributes = {{"axis", std::int64_t{0}},
                          {"split", Sizes()},
                          {"num_outputs", std::int64_t{0}}},
           .infer = infer_split,
           .gradient = gradient_of_split});
  all.add({.name = "Reshape",
           .inputs = {{"data"}},
           .outputs = {{"reshaped"}},
           .attributes = {{"shape", Sizes(), true}},
           .infer = infer_reshape,
           .gradient =
               [](GradientBuilder& builder) {
                 return Gradients{
                     builder.add("weft.ReshapeLike", {builder.gradient(0), builder.input(0)})};
               },
           .reuses = {{0, 0, Reuse::Kind::alias}}});
  all.add({.name = "weft.ReshapeLike",
           .inputs = {{"data"}, {"like"}},
           .outputs = {{"reshaped"}},
           .infer = infer_reshape_like,
           .reuses = {{0, 0, Reuse::Kind::alias}}});
  all.add({.name = "Transpose",
           .inputs = {{"data"}},
           .outputs = {{"transposed"}},
           .attributes = {{"perm", Sizes()}},
           .infer = infer_transpose,
           .gradient = gradient_of_transpose});
}

}  // namespace weft::dataflow
