// Convolution and pooling: windows that move over the dimensions after batch and channels.
#include <fmt/format.h>

#include <cstdint>

#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

/// The attributes of the window in one dimension.
struct Window {
  std::int64_t kernel, stride, dilation, before, after;
};

/// The largest value of an attribute; products and sums of such values fit.
constexpr std::int64_t kMost = INT32_MAX;

std::int64_t of_each(const Inference& in, const char* name, std::size_t i, std::size_t count,
                     std::int64_t otherwise, std::int64_t least) {
  const AttributeValue* value = in.attributes().find(name);
  if (value == nullptr || std::get<Sizes>(*value).empty()) return otherwise;
  const Sizes& sizes = std::get<Sizes>(*value);
  if (sizes.size() != count)
    in.refuse(fmt::format("{} has {} values; {} are needed", name, sizes.size(), count));
  if (sizes[i] < least) in.refuse(fmt::format("{} has a value below {}", name, least));
  if (sizes[i] > kMost) in.refuse(fmt::format("{} has a value above {}", name, kMost));
  return sizes[i];
}

Window window(const Inference& in, std::size_t i, std::int64_t kernel) {
  const std::size_t spatial = in.shape(0).dims() - 2;
  return {of_each(in, "kernel_shape", i, spatial, kernel, 1),
          of_each(in, "strides", i, spatial, 1, 1), of_each(in, "dilations", i, spatial, 1, 1),
          of_each(in, "pads", i, 2 * spatial, 0, 0),
          of_each(in, "pads", spatial + i, 2 * spatial, 0, 0)};
}

std::int64_t positions(const Inference& in, std::int64_t size, const Window& w, bool rounds_up) {
  if (size == kAnySize || w.kernel == kAnySize) return kAnySize;
  const std::int64_t room = size + w.before + w.after - w.dilation * (w.kernel - 1) - 1;
  if (room < 0) in.refuse("the window is larger than the padded input");
  return (room + (rounds_up ? w.stride - 1 : 0)) / w.stride + 1;
}

void check_window_input(const Inference& in) {
  need_float(in, 0);
  need_one_dtype(in);
  if (in.shape(0).dims() < 3) in.refuse("input 0 needs batch, channels and 1 or more sizes");
  if (in.attributes().word("auto_pad") != "NOTSET") in.refuse("give pads instead of auto_pad");
}

Types infer_conv(const Inference& in) {
  check_window_input(in);
  const PartialShape& x = in.shape(0);
  const PartialShape& w = in.shape(1);
  need_dims(in, 1, x.dims());
  const std::int64_t group = in.attributes().integer("group");
  if (group < 1 || (w[0] != kAnySize && w[0] % group != 0))
    in.refuse("group must divide the channels");
  if (w[1] != kAnySize) agreed(in, x[1], w[1] * group);
  if (in.has(2)) {
    need_dims(in, 2, 1);
    agreed(in, in.shape(2)[0], w[0]);
  }
  Sizes sizes{x[0], w[0]};
  for (std::size_t i = 0; i + 2 < x.dims(); ++i) {
    const Window one = window(in, i, w[i + 2]);
    agreed(in, one.kernel, w[i + 2]);
    sizes.push_back(positions(in, x[i + 2], one, false));
  }
  return {{in.dtype(0), PartialShape(sizes)}};
}

Gradients gradient_of_conv(GradientBuilder& builder) {
  const TensorId g = builder.gradient(0);
  Gradients gradients(builder.inputs());
  if (builder.needs(0))
    gradients[0] = builder.add("weft.ConvGradInput", {g, builder.input(1), builder.input(0)},
                               builder.attributes());
  if (builder.needs(1))
    gradients[1] = builder.add("weft.ConvGradWeight", {g, builder.input(0), builder.input(1)},
                               builder.attributes());
  if (builder.inputs() > 2 && builder.needs(2)) {
    Sizes axes{0};
    for (std::size_t i = 2; i < builder.graph().type(g).shape.dims(); ++i)
      axes.push_back(static_cast<std::int64_t>(i));
    gradients[2] = builder.add("ReduceSum", {g}, {{"axes", axes}, {"keepdims", 0}});
  }
  return gradients;
}

Types infer_pool(const Inference& in) {
  check_window_input(in);
  const PartialShape& x = in.shape(0);
  if (in.attributes().sizes("kernel_shape").empty()) in.refuse("kernel_shape is empty");
  Sizes sizes{x[0], x[1]};
  for (std::size_t i = 0; i + 2 < x.dims(); ++i) {
    const Window one = window(in, i, 1);
    if (one.before >= one.kernel || one.after >= one.kernel)
      in.refuse("pads as large as the window leave it without an element");
    sizes.push_back(positions(in, x[i + 2], one, in.attributes().integer("ceil_mode") != 0));
  }
  return {{in.dtype(0), PartialShape(sizes)}};
}

std::vector<AttributeSpec> window_attributes() {
  return {{"auto_pad", std::string("NOTSET")},
          {"kernel_shape", Sizes()},
          {"pads", Sizes()},
          {"strides", Sizes()}};
}

void add_conv(Definitions& all) {
  auto attributes = window_attributes();
  attributes.push_back({"dilations", Sizes()});
  attributes.push_back({"group", std::int64_t{1}});
  all.add({.name = "Conv",
           .inputs = {{"X"}, {"W"}, {"B", Parameter::Count::optional}},
           .outputs = {{"Y"}},
           .attributes = attributes,
           .infer = infer_conv,
           .gradient = gradient_of_conv});
  all.add({.name = "weft.ConvGradInput",
           .inputs = {{"dY"}, {"W"}, {"X"}},
           .outputs = {{"dX"}},
           .attributes = attributes,
           .infer = like_input(2)});
  all.add({.name = "weft.ConvGradWeight",
           .inputs = {{"dY"}, {"X"}, {"W"}},
           .outputs = {{"dW"}},
           .attributes = attributes,
           .infer = like_input(2)});
}

}  // namespace

void add_windows(Definitions& all) {
  add_conv(all);
  auto attributes = window_attributes();
  attributes[1].required = true;
  attributes.push_back({"ceil_mode", std::int64_t{0}});
  all.add({.name = "MaxPool",
           .inputs = {{"X"}},
           .outputs = {{"Y"}},
           .attributes = attributes,
           .infer = infer_pool,
           .gradient = [](GradientBuilder& builder) {
             return Gradients{builder.add(
                 "weft.MaxPoolGrad", {builder.gradient(0), builder.input(0), builder.output(0)},
                 builder.attributes())};
           }});
  all.add({.name = "weft.MaxPoolGrad",
           .inputs = {{"dY"}, {"X"}, {"Y"}},
           .outputs = {{"dX"}},
           .attributes = attributes,
           .infer = like_input(1)});
  attributes.push_back({"count_include_pad", std::int64_t{0}});
  all.add({.name = "AveragePool",
           .inputs = {{"X"}},
           .outputs = {{"Y"}},
           .attributes = attributes,
           .infer = infer_pool,
           .gradient = [](GradientBuilder& builder) {
             return Gradients{builder.add("weft.AveragePoolGrad",
                                          {builder.gradient(0), builder.input(0)},
                                          builder.attributes())};
           }});
  all.add({.name = "weft.AveragePoolGrad",
           .inputs = {{"dY"}, {"X"}},
           .outputs = {{"dX"}},
           .attributes = attributes,
           .infer = like_input(1)});
}

}  // namespace weft::dataflow
