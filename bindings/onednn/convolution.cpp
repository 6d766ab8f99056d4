// Convolution, in the layouts that oneDNN chooses.
#include "bindings/onednn/kernel_set.hpp"
#include "bindings/onednn/window.hpp"

namespace weft::dataflow::onednn {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

/// The sizes of a convolution of X by W to Y, and its forward primitive, which the others need to
/// be made.
class Convolution {
 public:
  Convolution(const Operands& operands, const Shape& x, const Shape& w, const Shape& y,
              bool has_bias, const dnnl::engine& engine)
      : window_(window_of(operands, x, kernel_of(w))),
        x_(dims_of(x)),
        w_(dims_of(w)),
        y_(dims_of(y)),
        engine_(engine) {
    // oneDNN has a dimension for the groups.
    if (const std::int64_t group = operands.attributes().integer("group"); group != 1) {
      w_[0] /= group;
      w_.insert(w_.begin(), group);
    }
    const Desc bias = has_bias ? row_major({y_[1]}) : Desc();
    forward_ = {
        {prop_kind::forward_training, algorithm::convolution_direct, any_layout(x_), any_layout(w_),
         bias, any_layout(y_), window_.strides, window_.gaps, window_.before, window_.after},
        own_scratchpad(),
        engine_};
  }

  Desc x() const { return row_major(x_); }
  Desc w() const { return row_major(w_); }
  Desc y() const { return row_major(y_); }
  Desc bias() const { return row_major({y_[1]}); }
  const dnnl::convolution_forward::primitive_desc& forward() const { return forward_; }
  dnnl::convolution_backward_data::primitive_desc input_gradient() const {
    return {{algorithm::convolution_direct, any_layout(x_), any_layout(w_), any_layout(y_),
             window_.strides, window_.gaps, window_.before, window_.after},
            own_scratchpad(),
            engine_,
            forward_};
  }
  dnnl::convolution_backward_weights::primitive_desc weight_gradient() const {
    return {{algorithm::convolution_direct, any_layout(x_), any_layout(w_), any_layout(y_),
             window_.strides, window_.gaps, window_.before, window_.after},
            own_scratchpad(),
            engine_,
            forward_};
  }

 private:
  static Dims kernel_of(const Shape& w) {
    Dims dims = dims_of(w);
    return {dims.begin() + 2, dims.end()};
  }

  Window window_;
  Dims x_, w_, y_;
  dnnl::engine engine_;
  dnnl::convolution_forward::primitive_desc forward_;
};

void build_conv(Routine& routine, const Operands& operands) {
  const Convolution convolution(operands, operands.shape(0), operands.shape(1),
                                operands.output(0).shape(), operands.has(2), routine.engine());
  const auto& forward = convolution.forward();
  const auto y = routine.output(0, convolution.y());
  const auto result = routine.before_delivery(y, forward.dst_desc());
  Routine::Arguments arguments{
      {DNNL_ARG_SRC, routine.reordered(routine.input(0, convolution.x()), forward.src_desc())},
      {DNNL_ARG_WEIGHTS,
       routine.reordered(routine.input(1, convolution.w()), forward.weights_desc())},
      {DNNL_ARG_DST, result}};
  if (operands.has(2)) arguments.emplace_back(DNNL_ARG_BIAS, routine.input(2, convolution.bias()));
  routine.run<dnnl::convolution_forward>(forward, arguments);
  routine.deliver(result, y);
}

/// Inputs dY, W, X.
void build_conv_input_gradient(Routine& routine, const Operands& operands) {
  const Convolution convolution(operands, operands.shape(2), operands.shape(1), operands.shape(0),
                                false, routine.engine());
  const auto backward = convolution.input_gradient();
  const auto dx = routine.output(0, convolution.x());
  const auto result = routine.before_delivery(dx, backward.diff_src_desc());
  routine.run<dnnl::convolution_backward_data>(
      backward, {{DNNL_ARG_DIFF_DST,
                  routine.reordered(routine.input(0, convolution.y()), backward.diff_dst_desc())},
                 {DNNL_ARG_WEIGHTS,
                  routine.reordered(routine.input(1, convolution.w()), backward.weights_desc())},
                 {DNNL_ARG_DIFF_SRC, result}});
  routine.deliver(result, dx);
}

/// Inputs dY, X, W.
void build_conv_weight_gradient(Routine& routine, const Operands& operands) {
  const Convolution convolution(operands, operands.shape(1), operands.shape(2), operands.shape(0),
                                false, routine.engine());
  const auto backward = convolution.weight_gradient();
  const auto dw = routine.output(0, convolution.w());
  const auto result = routine.before_delivery(dw, backward.diff_weights_desc());
  routine.run<dnnl::convolution_backward_weights>(
      backward,
      {{DNNL_ARG_DIFF_DST,
        routine.reordered(routine.input(0, convolution.y()), backward.diff_dst_desc())},
       {DNNL_ARG_SRC, routine.reordered(routine.input(1, convolution.x()), backward.src_desc())},
       {DNNL_ARG_DIFF_WEIGHTS, result}});
  routine.deliver(result, dw);
}

}  // namespace

void add_convolution(KernelSet& set) {
  // Without channels, Y would be the bias alone: refused, as no network has it.
  set.add_primitives("Conv", build_conv);
  set.add_primitives("weft.ConvGradInput", build_conv_input_gradient, {OfNothing::zeros});
  set.add_primitives("weft.ConvGradWeight", build_conv_weight_gradient, {OfNothing::zeros});
}

}  // namespace weft::dataflow::onednn
