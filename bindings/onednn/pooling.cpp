// Maxima and means of windows.
#include "bindings/onednn/kernel_set.hpp"
#include "bindings/onednn/window.hpp"

namespace weft::dataflow::onednn {
namespace {

using dnnl::prop_kind;

/// The sizes of a pool of X to Y.
class Pool {
 public:
  Pool(const Operands& operands, const Shape& x, const Shape& y, dnnl::algorithm algorithm)
      : window_(window_of(operands, x, operands.attributes().sizes("kernel_shape"))),
        x_(dims_of(x)),
        y_(dims_of(y)),
        algorithm_(algorithm) {
    for (std::size_t i = 0; i < window_.kernel.size(); ++i) {
      // With ceil_mode the last window may need more padding than `pads` says.
      const std::int64_t needed =
          (y_[i + 2] - 1) * window_.strides[i] + window_.kernel[i] - x_[i + 2] - window_.before[i];
      if (needed >= window_.kernel[i])
        operands.refuse("the last window of ceil_mode has no element of the input");
      window_.after[i] = std::max(window_.after[i], needed);
    }
  }

  Desc x() const { return row_major(x_); }
  Desc y() const { return row_major(y_); }
  dnnl::pooling_forward::primitive_desc forward(prop_kind kind, const Desc& x,
                                                const dnnl::engine& engine) const {
    return {dnnl::pooling_forward::desc(kind, algorithm_, x, any_layout(y_), window_.strides,
                                        window_.kernel, window_.before, window_.after),
            own_scratchpad(), engine};
  }
  dnnl::pooling_backward::primitive_desc backward(
      const dnnl::engine& engine, const dnnl::pooling_forward::primitive_desc& forward) const {
    return {dnnl::pooling_backward::desc(algorithm_, forward.src_desc(), forward.dst_desc(),
                                         window_.strides, window_.kernel, window_.before,
                                         window_.after),
            own_scratchpad(), engine, forward};
  }

 private:
  Window window_;
  Dims x_, y_;
  dnnl::algorithm algorithm_;
};

void build_pool(Routine& routine, const Operands& operands, dnnl::algorithm algorithm) {
  const Pool pool(operands, operands.shape(0), operands.output(0).shape(), algorithm);
  const auto forward = pool.forward(prop_kind::forward_inference, pool.x(), routine.engine());
  const auto y = routine.output(0, pool.y());
  const auto result = routine.before_delivery(y, forward.dst_desc());
  routine.run<dnnl::pooling_forward>(
      forward, {{DNNL_ARG_SRC, routine.input(0, pool.x())}, {DNNL_ARG_DST, result}});
  routine.deliver(result, y);
}

/// Inputs dY, X. The places of the maxima are found again: no tensor of the graph keeps them.
void build_pool_gradient(Routine& routine, const Operands& operands, dnnl::algorithm algorithm) {
  const Pool pool(operands, operands.shape(1), operands.shape(0), algorithm);
  const auto forward = pool.forward(prop_kind::forward_training, pool.x(), routine.engine());
  const auto backward = pool.backward(routine.engine(), forward);
  const auto dx = routine.output(0, pool.x());
  const auto result = routine.before_delivery(dx, backward.diff_src_desc());
  Routine::Arguments arguments{
      {DNNL_ARG_DIFF_DST, routine.reordered(routine.input(0, pool.y()), backward.diff_dst_desc())},
      {DNNL_ARG_DIFF_SRC, result}};
  if (algorithm == dnnl::algorithm::pooling_max) {
    const auto places = routine.scratch(forward.workspace_desc());
    routine.run<dnnl::pooling_forward>(forward,
                                       {{DNNL_ARG_SRC, routine.input(1, pool.x())},
                                        {DNNL_ARG_DST, routine.scratch(forward.dst_desc())},
                                        {DNNL_ARG_WORKSPACE, places}});
    arguments.emplace_back(DNNL_ARG_WORKSPACE, places);
  }
  routine.run<dnnl::pooling_backward>(backward, arguments);
  routine.deliver(result, dx);
}

dnnl::algorithm mean_of(const Operands& operands) {
  return operands.attributes().integer("count_include_pad") != 0
             ? dnnl::algorithm::pooling_avg_include_padding
             : dnnl::algorithm::pooling_avg_exclude_padding;
}

}  // namespace

void add_pooling(KernelSet& set) {
  set.add_primitives("MaxPool", [](Routine& routine, const Operands& operands) {
    build_pool(routine, operands, dnnl::algorithm::pooling_max);
  });
  set.add_primitives("weft.MaxPoolGrad",
                     [](Routine& routine, const Operands& operands) {
                       build_pool_gradient(routine, operands, dnnl::algorithm::pooling_max);
                     },
                     {OfNothing::zeros});
  set.add_primitives("AveragePool", [](Routine& routine, const Operands& operands) {
    build_pool(routine, operands, mean_of(operands));
  });
  set.add_primitives("weft.AveragePoolGrad",
                     [](Routine& routine, const Operands& operands) {
                       build_pool_gradient(routine, operands, mean_of(operands));
                     },
                     {OfNothing::zeros});
}

}  // namespace weft::dataflow::onednn
