// Sums, means and maxima over axes.
#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

Types infer_reduction(const Inference& in) {
  const PartialShape& x = in.shape(0);
  const Sizes& axes = in.attributes().sizes("axes");
  std::vector<bool> reduced(x.dims(), axes.empty());
  for (const std::int64_t axis : axes) {
    const std::size_t at = axis_of(in, axis, x.dims());
    if (reduced[at]) in.refuse("axes names a dimension twice");
    reduced[at] = true;
  }
  const bool keeps = in.attributes().integer("keepdims") != 0;
  Sizes sizes;
  for (std::size_t i = 0; i < x.dims(); ++i)
    if (!reduced[i] || keeps) sizes.push_back(reduced[i] ? 1 : x[i]);
  return {{in.dtype(0), PartialShape(sizes)}};
}

void add_reduction(Definitions& all, const std::string& name, bool needs_result) {
  const std::vector<AttributeSpec> attributes = {{"axes", Sizes()}, {"keepdims", std::int64_t{1}}};
  const std::string backwards = "weft." + name + "Grad";
  all.add({.name = name,
           .inputs = {{"data"}},
           .outputs = {{"reduced"}},
           .attributes = attributes,
           .infer = infer_reduction,
           .gradient = [backwards, needs_result](GradientBuilder& builder) {
             std::vector<TensorId> inputs{builder.gradient(0), builder.input(0)};
             if (needs_result) inputs.push_back(builder.output(0));
             return Gradients{builder.add(backwards, inputs, builder.attributes())};
           }});
  std::vector<Parameter> inputs{{"dreduced"}, {"data"}};
  if (needs_result) inputs.push_back({"reduced"});
  all.add({.name = backwards,
           .inputs = inputs,
           .outputs = {{"ddata"}},
           .attributes = attributes,
           .infer = like_input(1)});
}

}  // namespace

void add_reductions(Definitions& all) {
  add_reduction(all, "ReduceSum", false);
  add_reduction(all, "ReduceMean", false);
  add_reduction(all, "ReduceMax", true);
}

}  // namespace weft::dataflow
