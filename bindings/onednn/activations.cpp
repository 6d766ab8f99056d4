// Functions of one element.
#include "base/mix64.hpp"
#include "bindings/onednn/kernel_set.hpp"

namespace weft::dataflow::onednn {
namespace {

void build_eltwise(Routine& routine, const Operands& operands, dnnl::algorithm algorithm,
                   float alpha = 0) {
  const Desc desc = row_major({operands.shape(0).elements()});
  routine.run<dnnl::eltwise_forward>(
      {dnnl::eltwise_forward::desc(dnnl::prop_kind::forward_inference, algorithm, desc, alpha),
       own_scratchpad(), routine.engine()},
      {{DNNL_ARG_SRC, routine.input(0, desc)}, {DNNL_ARG_DST, routine.output(0, desc)}});
}

/// The gradient from the function's result.
void build_eltwise_gradient(Routine& routine, const Operands& operands, dnnl::algorithm algorithm) {
  const Desc desc = row_major({operands.shape(0).elements()});
  const dnnl::eltwise_forward::primitive_desc forward(
      dnnl::eltwise_forward::desc(dnnl::prop_kind::forward_training, algorithm, desc),
      routine.engine());
  routine.run<dnnl::eltwise_backward>({dnnl::eltwise_backward::desc(algorithm, desc, desc),
                                       own_scratchpad(), routine.engine(), forward},
                                      {{DNNL_ARG_DIFF_DST, routine.input(0, desc)},
                                       {DNNL_ARG_DST, routine.input(1, desc)},
                                       {DNNL_ARG_DIFF_SRC, routine.output(0, desc)}});
}

template <dnnl::algorithm Algorithm>
void activation(Routine& routine, const Operands& operands) {
  build_eltwise(routine, operands, Algorithm);
}
template <dnnl::algorithm Algorithm>
void activation_gradient(Routine& routine, const Operands& operands) {
  build_eltwise_gradient(routine, operands, Algorithm);
}

template <dnnl::algorithm Forwards, dnnl::algorithm Backwards>
void add_activation(KernelSet& set, const std::string& name) {
  set.add_primitives(name, activation<Forwards>);
  set.add_primitives("weft." + name + "Grad", activation_gradient<Backwards>);
}

/// oneDNN would make 0 of NaN.
void relu(const Operands& operands) {
  operands.need_f32();
  const auto x = operands.input(0).as<float>();
  const auto y = operands.output(0).as<float>();
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

void drop(const Operands& operands, std::uint64_t step) {
  operands.need_f32();
  const double ratio = operands.attributes().number("ratio");
  const auto seed = static_cast<std::uint64_t>(operands.attributes().integer("seed"));
  std::uint64_t start = mix64(seed + kGolden64);
  for (const char letter : operands.node()) start = fnv1a(start, std::uint64_t(letter));
  start = mix64(start + step);
  // Below it, a number of 53 bits drops its element.
  const auto limit = static_cast<std::uint64_t>(ratio * 0x1p53);
  const auto factor = static_cast<float>(1 / (1 - ratio));
  const auto x = operands.input(0).as<float>();
  const auto y = operands.output(0).as<float>();
  const auto mask = operands.output(1).as<bool>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    mask[i] = mix64(start + (i + 1) * kGolden64) >> 11U >= limit;
    y[i] = mask[i] ? x[i] * factor : 0;
  }
}

void drop_gradient(const Operands& operands) {
  operands.need_f32();
  const auto factor = static_cast<float>(1 / (1 - operands.attributes().number("ratio")));
  const auto g = operands.input(0).as<float>();
  const auto mask = operands.input(1).as<std::uint8_t>();
  const auto to = operands.output(0).as<float>();
  for (std::size_t i = 0; i < g.size(); ++i) to[i] = mask[i] != 0 ? g[i] * factor : 0;
}

}  // namespace

void add_activations(KernelSet& set) {
  using dnnl::algorithm;
  set.add_loops("Relu", relu);
  set.add_primitives("weft.ReluGrad", activation_gradient<algorithm::eltwise_relu_use_dst_for_bwd>);
  add_activation<algorithm::eltwise_logistic, algorithm::eltwise_logistic_use_dst_for_bwd>(
      set, "Sigmoid");
  add_activation<algorithm::eltwise_tanh, algorithm::eltwise_tanh_use_dst_for_bwd>(set, "Tanh");
  set.add_primitives("weft.Scale", [](Routine& routine, const Operands& operands) {
    build_eltwise(routine, operands, algorithm::eltwise_linear,
                  static_cast<float>(operands.attributes().number("factor")));
  });
  set.add("Dropout", [name = std::string("Dropout")](KernelCall& call) {
    drop(Operands(call, name), call.step());
  });
  set.add_loops("weft.DropoutGrad", drop_gradient);
}

}  // namespace weft::dataflow::onednn
