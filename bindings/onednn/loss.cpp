// The cross entropy of a softmax.
#include <algorithm>

#include "bindings/onednn/indices.hpp"
#include "bindings/onednn/kernel_set.hpp"

namespace weft::dataflow::onednn {
namespace {

/// Scores as batch, classes, and all other dimensions as one.
struct Scores {
  explicit Scores(const Shape& shape)
      : batch(shape[0]), classes(shape[1]), inner(shape.elements() / (batch * classes)) {}
  Desc desc() const { return row_major({batch, classes, inner}); }
  /// The place of the score of a class for label `k`.
  std::int64_t at(std::int64_t k, std::int64_t label) const {
    return (k / inner * classes + label) * inner + k % inner;
  }
  std::int64_t labels() const { return batch * inner; }

  std::int64_t batch, classes, inner;
};

constexpr int kClassAxis = 1;

/// Inputs scores, labels; outputs loss, log_prob.
void build_loss(Routine& routine, const Operands& operands) {
  const Scores scores(operands.shape(0));
  const auto probabilities = routine.output(1, scores.desc());
  routine.run<dnnl::logsoftmax_forward>(
      {dnnl::logsoftmax_forward::desc(dnnl::prop_kind::forward_training, scores.desc(), kClassAxis),
       own_scratchpad(), routine.engine()},
      {{DNNL_ARG_SRC, routine.input(0, scores.desc())}, {DNNL_ARG_DST, probabilities}});
  routine.run([=](const Routine&, const Operands& now) {
    const auto log_prob = now.output(1).as<float>();
    const auto loss = now.output(0).as<float>();
    const std::string& reduction = now.attributes().word("reduction");
    double sum = 0;
    for_each_index(now, 1, 0, scores.classes, [&](std::int64_t k, std::int64_t label) {
      const float one = -log_prob[std::size_t(scores.at(k, label))];
      if (reduction == "none")
        loss[std::size_t(k)] = one;
      else
        sum += double(one);
    });
    if (reduction == "mean") sum /= double(scores.labels());
    if (reduction != "none") loss[0] = float(sum);
  });
}

/// Inputs dloss, log_prob, labels; the gradient of log_prob is minus the loss' at each label.
void build_loss_gradient(Routine& routine, const Operands& operands) {
  const Scores scores(operands.shape(1));
  const Desc desc = scores.desc();
  const auto log_prob = routine.input(1, desc);
  const auto result = routine.output(0, desc);
  routine.run([=](const Routine&, const Operands& now) {
    const auto g = now.input(0).as<float>();
    const auto to = now.output(0).as<float>();
    const std::string& reduction = now.attributes().word("reduction");
    const float share = reduction == "mean" ? 1.0F / float(scores.labels()) : 1.0F;
    std::fill(to.begin(), to.end(), 0.0F);
    for_each_index(now, 2, 0, scores.classes, [&](std::int64_t k, std::int64_t label) {
      to[std::size_t(scores.at(k, label))] = -g[reduction == "none" ? std::size_t(k) : 0] * share;
    });
  });
  const dnnl::logsoftmax_forward::primitive_desc forward(
      dnnl::logsoftmax_forward::desc(dnnl::prop_kind::forward_training, desc, kClassAxis),
      routine.engine());
  routine.run<dnnl::logsoftmax_backward>(
      {dnnl::logsoftmax_backward::desc(desc, desc, kClassAxis), own_scratchpad(), routine.engine(),
       forward},
      {{DNNL_ARG_DST, log_prob}, {DNNL_ARG_DIFF_DST, result}, {DNNL_ARG_DIFF_SRC, result}});
}

}  // namespace

void add_loss(KernelSet& set) {
  set.add_primitives("SoftmaxCrossEntropyLoss", build_loss);
  set.add_primitives("weft.SoftmaxCrossEntropyLossGrad", build_loss_gradient, {OfNothing::zeros});
}

}  // namespace weft::dataflow::onednn
