// Batch normalisation.
#include "bindings/onednn/kernel_set.hpp"

namespace weft::dataflow::onednn {
namespace {

using dnnl::normalization_flags;
using dnnl::prop_kind;
using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;

const auto kScaled = normalization_flags::use_scale | normalization_flags::use_shift;

bool trains(const Operands& operands) {
  return operands.attributes().integer("training_mode") != 0;
}

/// Batch, channels, and all other dimensions as one.
Desc data_desc(const Shape& shape) {
  return row_major({shape[0], shape[1], shape.elements() / (shape[0] * shape[1])});
}

Forward::primitive_desc forward_of(const Routine& routine, const Operands& operands, prop_kind kind,
                                   const Desc& data, normalization_flags flags) {
  return {
      Forward::desc(kind, data, static_cast<float>(operands.attributes().number("epsilon")), flags),
      own_scratchpad(), routine.engine()};
}

/// running = momentum * before + (1 - momentum) * of this batch.
void renew(const Routine& routine, Routine::Slot running, Routine::Slot before, Routine::Slot batch,
           float momentum) {
  const std::size_t count = routine.bytes(running) / sizeof(float);
  for (std::size_t c = 0; c < count; ++c)
    routine.data<float>(running)[c] =
        momentum * routine.data<float>(before)[c] + (1 - momentum) * routine.data<float>(batch)[c];
}

/// Inputs X, scale, B, mean, variance; outputs Y and, in training, the running statistics.
void build_normalisation(Routine& routine, const Operands& operands) {
  const Desc data = data_desc(operands.shape(0));
  const Desc channels = row_major({operands.shape(0)[1]});
  const auto mean_before = routine.input(3, channels);
  const auto variance_before = routine.input(4, channels);
  Routine::Arguments arguments{{DNNL_ARG_SRC, routine.input(0, data)},
                               {DNNL_ARG_SCALE, routine.input(1, channels)},
                               {DNNL_ARG_SHIFT, routine.input(2, channels)},
                               {DNNL_ARG_DST, routine.output(0, data)}};
  if (!trains(operands)) {
    arguments.emplace_back(DNNL_ARG_MEAN, mean_before);
    arguments.emplace_back(DNNL_ARG_VARIANCE, variance_before);
    routine.run<Forward>(forward_of(routine, operands, prop_kind::forward_inference, data,
                                    kScaled | normalization_flags::use_global_stats),
                         arguments);
    return;
  }
  const auto mean = routine.scratch(channels);
  const auto variance = routine.scratch(channels);
  arguments.emplace_back(DNNL_ARG_MEAN, mean);
  arguments.emplace_back(DNNL_ARG_VARIANCE, variance);
  routine.run<Forward>(forward_of(routine, operands, prop_kind::forward_training, data, kScaled),
                       arguments);
  const auto momentum = static_cast<float>(operands.attributes().number("momentum"));
  routine.run([=, mean_after = routine.output(1, channels),
               variance_after = routine.output(2, channels)](const Routine& now, const Operands&) {
    renew(now, mean_after, mean_before, mean, momentum);
    renew(now, variance_after, variance_before, variance, momentum);
  });
}

/// Inputs dY, X, scale, mean, variance; outputs dX, dscale, dB.
void build_normalisation_gradient(Routine& routine, const Operands& operands) {
  const Desc data = data_desc(operands.shape(1));
  const Desc channels = row_major({operands.shape(1)[1]});
  auto flags = kScaled;
  auto mean = routine.input(3, channels);
  auto variance = routine.input(4, channels);
  if (trains(operands)) {
    // The batch's statistics are computed again: no tensor of the graph keeps them.
    mean = routine.scratch(channels);
    variance = routine.scratch(channels);
    routine.run<Forward>(
        forward_of(routine, operands, prop_kind::forward_training, data, normalization_flags::none),
        {{DNNL_ARG_SRC, routine.input(1, data)},
         {DNNL_ARG_DST, routine.scratch(data)},
         {DNNL_ARG_MEAN, mean},
         {DNNL_ARG_VARIANCE, variance}});
  } else {
    flags = flags | normalization_flags::use_global_stats;
  }
  const Backward::primitive_desc backward(
      Backward::desc(prop_kind::backward, data, data,
                     static_cast<float>(operands.attributes().number("epsilon")), flags),
      own_scratchpad(), routine.engine(),
      forward_of(routine, operands, prop_kind::forward_training, data, flags));
  // oneDNN asks for a shift, and doesn't read it.
  const auto scale = routine.input(2, channels);
  routine.run<Backward>(backward, {{DNNL_ARG_SRC, routine.input(1, data)},
                                   {DNNL_ARG_DIFF_DST, routine.input(0, data)},
                                   {DNNL_ARG_SCALE, scale},
                                   {DNNL_ARG_SHIFT, scale},
                                   {DNNL_ARG_MEAN, mean},
                                   {DNNL_ARG_VARIANCE, variance},
                                   {DNNL_ARG_DIFF_SRC, routine.output(0, data)},
                                   {DNNL_ARG_DIFF_SCALE, routine.output(1, channels)},
                                   {DNNL_ARG_DIFF_SHIFT, routine.output(2, channels)}});
}

}  // namespace

void add_normalisation(KernelSet& set) {
  set.add_primitives("BatchNormalization", build_normalisation);
  set.add_primitives("weft.BatchNormalizationGrad", build_normalisation_gradient,
                     {OfNothing::zeros});
}

}  // namespace weft::dataflow::onednn
