// Batch normalisation.
#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

Types infer_normalisation(const Inference& in) {
  need_float(in, 0);
  need_one_dtype(in);
  if (in.shape(0).dims() < 2) in.refuse("input 0 needs batch and channels");
  std::int64_t channels = in.shape(0)[1];
  for (std::size_t i = 1; i < 5; ++i) {
    need_dims(in, i, 1);
    channels = agreed(in, channels, in.shape(i)[0]);
  }
  Types types{in.input(0)};
  if (in.attributes().integer("training_mode") != 0)
    types.insert(types.end(), 2, {in.dtype(0), PartialShape{channels}});
  return types;
}

Gradients gradient_of_normalisation(GradientBuilder& builder) {
  const TensorId all =
      builder.add("weft.BatchNormalizationGrad",
                  {builder.gradient_or_zeros(0), builder.input(0), builder.input(1),
                   builder.input(3), builder.input(4)},
                  {{"epsilon", builder.attributes().number("epsilon")},
                   {"training_mode", builder.attributes().integer("training_mode")}});
  return {all, {all.node, 1}, {all.node, 2}};
}

}  // namespace

void add_normalisation(Definitions& all) {
  all.add({.name = "BatchNormalization",
           .inputs = {{"X"}, {"scale"}, {"B"}, {"input_mean"}, {"input_var"}},
           .outputs = {{"Y"},
                       {"running_mean", Parameter::Count::optional},
                       {"running_var", Parameter::Count::optional}},
           .attributes = {{"epsilon", 1e-5}, {"momentum", 0.9}, {"training_mode", std::int64_t{0}}},
           .infer = infer_normalisation,
           .gradient = gradient_of_normalisation});
  all.add({.name = "weft.BatchNormalizationGrad",
           .inputs = {{"dY"}, {"X"}, {"scale"}, {"mean"}, {"var"}},
           .outputs = {{"dX"}, {"dscale"}, {"dB"}},
           .attributes = {{"epsilon", 1e-5}, {"training_mode", std::int64_t{0}}},
           .infer = [](const Inference& in) {
             return Types{in.input(1), in.input(2), in.input(2)};
           }});
}

}  // namespace weft::dataflow
