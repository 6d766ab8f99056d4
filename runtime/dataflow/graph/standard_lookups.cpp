// Operators with indices: embedding, and the loss over classes.
#include "base/fail.hpp"
#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

Types infer_gather(const Inference& in) {
  const PartialShape& data = in.shape(0);
  if (!is_index(in.dtype(1))) in.refuse("the indices must be i64 or i32");
  const std::size_t axis = axis_of(in, in.attributes().integer("axis"), data.dims());
  Sizes sizes;
  for (std::size_t i = 0; i < data.dims(); ++i) {
    if (i != axis)
      sizes.push_back(data[i]);
    else
      sizes.insert(sizes.end(), in.shape(1).sizes().begin(), in.shape(1).sizes().end());
  }
  return {{in.dtype(0), PartialShape(sizes)}};
}

Gradients gradient_of_gather(GradientBuilder& builder) {
  return {builder.add("weft.GatherGrad", {builder.gradient(0), builder.input(1), builder.input(0)},
                      builder.attributes())};
}

Types infer_loss(const Inference& in) {
  const PartialShape& scores = in.shape(0);
  need_float(in, 0);
  if (!is_index(in.dtype(1))) in.refuse("the labels must be i64 or i32");
  if (in.has(2)) in.refuse("weights are not supported");
  if (scores.dims() < 2) in.refuse("the scores need batch and classes");
  need_dims(in, 1, scores.dims() - 1);
  Sizes labels;
  for (std::size_t i = 0; i < scores.dims(); ++i)
    if (i != 1) labels.push_back(agreed(in, scores[i], in.shape(1)[labels.size()]));
  const std::string& reduction = in.attributes().word("reduction");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    in.refuse("reduction is mean, sum or none");
  Sizes all(scores.sizes().begin(), scores.sizes().end());
  all[0] = labels[0];
  for (std::size_t i = 2; i < all.size(); ++i) all[i] = labels[i - 1];
  return {{in.dtype(0), reduction == "none" ? PartialShape(labels) : PartialShape()},
          {in.dtype(0), PartialShape(all)}};
}

Gradients gradient_of_loss(GradientBuilder& builder) {
  // The loss is what is differentiated; log_prob is there for its gradient and to be looked at.
  if (!builder.gradient(1).none())
    throw_error(Code::bad_argument, "gradients",
                "node '" + builder.graph().node(builder.output(0).node).name +
                    "' (SoftmaxCrossEntropyLoss) has no gradient through log_prob");
  return {builder.add("weft.SoftmaxCrossEntropyLossGrad",
                      {builder.gradient(0), builder.output(1), builder.input(1)},
                      builder.attributes())};
}

}  // namespace

void add_lookups(Definitions& all) {
  const std::vector<AttributeSpec> axis = {{"axis", std::int64_t{0}}};
  all.add({.name = "Gather",
           .inputs = {{"data"}, {"indices"}},
           .outputs = {{"output"}},
           .attributes = axis,
           .infer = infer_gather,
           .gradient = gradient_of_gather});
  all.add({.name = "weft.GatherGrad",
           .inputs = {{"dY"}, {"indices"}, {"data"}},
           .outputs = {{"ddata"}},
           .attributes = axis,
           .infer = like_input(2)});
  const std::vector<AttributeSpec> reduction = {{"reduction", std::string("mean")}};
  all.add({.name = "SoftmaxCrossEntropyLoss",
           .inputs = {{"scores"}, {"labels"}, {"weights", Parameter::Count::optional}},
           .outputs = {{"output"}, {"log_prob"}},
           .attributes = reduction,
           .infer = infer_loss,
           .gradient = gradient_of_loss});
  all.add({.name = "weft.SoftmaxCrossEntropyLossGrad",
           .inputs = {{"doutput"}, {"log_prob"}, {"labels"}},
           .outputs = {{"dscores"}},
           .attributes = reduction,
           .infer = like_input(1)});
}

}  // namespace weft::dataflow
