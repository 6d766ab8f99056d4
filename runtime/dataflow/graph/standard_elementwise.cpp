// Operators that treat every element alike.
#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

Types infer_broadcast(const Inference& in) {
  need_one_dtype(in);
  PartialShape shape = in.shape(0);
  for (std::size_t i = 1; i < in.inputs(); ++i) shape = broadcast(in, shape, in.shape(i));
  return {{in.dtype(0), shape}};
}

Types infer_same(const Inference& in) {
  need_float(in, 0);
  need_one_dtype(in);
  PartialShape shape = in.shape(0);
  for (std::size_t i = 1; i < in.inputs(); ++i) shape = agreed(in, shape, in.shape(i));
  return {{in.dtype(0), shape}};
}

/// `gradient`, which has the shape of output 0, for input `i`, which may have been broadcast.
TensorId unbroadcast(GradientBuilder& builder, TensorId gradient, std::size_t i) {
  const PartialShape& input = builder.graph().type(builder.input(i)).shape;
  if (input.known() && input == builder.graph().type(builder.output(0)).shape) return gradient;
  return builder.add("weft.SumTo", {gradient, builder.input(i)});
}

Gradients gradient_of_sum(GradientBuilder& builder) {
  Gradients gradients;
  for (std::size_t i = 0; i < builder.inputs(); ++i)
    gradients.push_back(builder.needs(i) ? unbroadcast(builder, builder.gradient(0), i)
                                         : TensorId{});
  return gradients;
}

Gradients gradient_of_product(GradientBuilder& builder) {
  Gradients gradients;
  for (std::size_t i = 0; i < 2; ++i)
    gradients.push_back(
        builder.needs(i)
            ? unbroadcast(builder, builder.add("Mul", {builder.gradient(0), builder.input(1 - i)}),
                          i)
            : TensorId{});
  return gradients;
}

void add_activation(Definitions& all, const std::string& name) {
  const std::string backwards = "weft." + name + "Grad";
  const bool is_tanh = name == "Tanh";  // ONNX has other names there
  all.add({.name = name,
           .inputs = {{is_tanh ? "input" : "X"}},
           .outputs = {{is_tanh ? "output" : "Y"}},
           .infer = infer_same,
           .gradient =
               [backwards](GradientBuilder& builder) {
                 return Gradients{builder.add(backwards, {builder.gradient(0), builder.output(0)})};
               },
           .reuses = {{0, 0}}});
  all.add({.name = backwards,
           .inputs = {{"dY"}, {"Y"}},
           .outputs = {{"dX"}},
           .infer = infer_same,
           .reuses = {{0, 0}}});
}

Types infer_dropout(const Inference& in) {
  need_float(in, 0);
  const double ratio = in.attributes().number("ratio");
  if (!(ratio >= 0 && ratio < 1)) in.refuse("the ratio must be in [0, 1)");
  return {in.input(0), {DType::boolean, in.shape(0)}};
}

Types infer_dropout_gradient(const Inference& in) {
  if (in.dtype(1) != DType::boolean) in.refuse("the mask must be boolean");
  return {{in.dtype(0), agreed(in, in.shape(0), in.shape(1))}};
}

void add_dropout(Definitions& all) {
  all.add({.name = "Dropout",
           .inputs = {{"data"}},
           .outputs = {{"output"}, {"mask", Parameter::Count::optional}},
           .attributes = {{"ratio", 0.5}, {"seed", std::int64_t{0}}},
           .infer = infer_dropout,
           .gradient =
               [](GradientBuilder& builder) {
                 return Gradients{builder.add("weft.DropoutGrad",
                                              {builder.gradient_or_zeros(0), builder.output(1)},
                                              {{"ratio", builder.attributes().number("ratio")}})};
               },
           .reuses = {{0, 0}}});
  all.add({.name = "weft.DropoutGrad",
           .inputs = {{"dY"}, {"mask"}},
           .outputs = {{"dX"}},
           .attributes = {{"ratio", 0.5}},
           .infer = infer_dropout_gradient,
           .reuses = {{0, 0}}});
}

void add_scale(Definitions& all) {
  all.add({.name = "weft.Scale",
           .inputs = {{"X"}},
           .outputs = {{"Y"}},
           .attributes = {{"factor", 1.0, true}},
           .infer = infer_same,
           .gradient =
               [](GradientBuilder& builder) {
                 return Gradients{builder.add("weft.Scale", {builder.gradient(0)},
                                              {{"factor", builder.attributes().number("factor")}})};
               },
           .reuses = {{0, 0}}});
}

Types infer_sum_to(const Inference& in) {
  need_one_dtype(in);
  // The larger shape must be what both are broadcast to.
  if (in.shape(1).dims() > in.shape(0).dims())
    in.refuse("input 1 has more dimensions than input 0");
  agreed(in, broadcast(in, in.shape(0), in.shape(1)), in.shape(0));
  return {in.input(1)};
}

}  // namespace

void add_elementwise(Definitions& all) {
  all.add({.name = "Add",
           .inputs = {{"A"}, {"B"}},
           .outputs = {{"C"}},
           .infer = infer_broadcast,
           .gradient = gradient_of_sum,
           .reuses = {{0, 0}, {1, 0}}});
  all.add({.name = "Mul",
           .inputs = {{"A"}, {"B"}},
           .outputs = {{"C"}},
           .infer = infer_broadcast,
           .gradient = gradient_of_product,
           .reuses = {{0, 0}, {1, 0}}});
  all.add({.name = "Sum",
           .inputs = {{"data_0", Parameter::Count::variadic}},
           .outputs = {{"sum"}},
           .infer = infer_broadcast,
           .gradient = gradient_of_sum,
           .reuses = {{0, 0}}});
  // The inverse of broadcasting: adds up the elements that came from one.
  all.add({.name = "weft.SumTo",
           .inputs = {{"X"}, {"like"}},
           .outputs = {{"Y"}},
           .infer = infer_sum_to});
  add_scale(all);
  for (const char* name : {"Relu", "Sigmoid", "Tanh"}) add_activation(all, name);
  add_dropout(all);
}

}  // namespace weft::dataflow
