#include "kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "weft/variables.hpp"
#include "window_kernels.hpp"

namespace images {
namespace {

using weft::Tensor;
using weft::dataflow::KernelCall;
using weft::dataflow::Kernels;
using weft::dataflow::Sizes;

void expect(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

std::size_t size(const Tensor& tensor, std::size_t dimension) {
  return static_cast<std::size_t>(tensor.shape()[dimension]);
}

void gemm(KernelCall& call) {
  const bool transposes_a = call.attributes().integer("transA") != 0;
  const bool transposes_b = call.attributes().integer("transB") != 0;
  const auto alpha = static_cast<float>(call.attributes().number("alpha"));
  const auto beta = static_cast<float>(call.attributes().number("beta"));
  const std::span<const float> a = call.input(0).as<float>();
  const std::span<const float> b = call.input(1).as<float>();
  const Tensor& y = call.output(0);
  const std::span<float> to = y.as<float>();
  const std::size_t rows = size(y, 0);
  const std::size_t columns = size(y, 1);
  const std::size_t inner = size(call.input(0), transposes_a ? 0 : 1);
  if (call.has(2)) expect(call.input(2).shape().elements() == y.shape()[1], "C is one row");
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      float sum = 0.0F;
      for (std::size_t k = 0; k < inner; ++k)
        sum += a[transposes_a ? k * rows + i : i * inner + k] *
               b[transposes_b ? j * inner + k : k * columns + j];
      to[i * columns + j] =
          alpha * sum + (call.has(2) ? beta * call.input(2).as<float>()[j] : 0.0F);
    }
}

void relu(KernelCall& call) {
  std::ranges::transform(call.input(0).as<float>(), call.output(0).as<float>().begin(),
                         [](float x) { return std::max(x, 0.0F); });
}

void relu_grad(KernelCall& call) {
  std::ranges::transform(call.input(0).as<float>(), call.input(1).as<float>(),
                         call.output(0).as<float>().begin(),
                         [](float dy, float y) { return y > 0.0F ? dy : 0.0F; });
}

void scale(KernelCall& call) {
  const auto factor = static_cast<float>(call.attributes().number("factor"));
  std::ranges::transform(call.input(0).as<float>(), call.output(0).as<float>().begin(),
                         [factor](float x) { return factor * x; });
}

void sum(KernelCall& call) {
  const std::span<float> to = call.output(0).as<float>();
  // The output may have the first input's memory.
  for (std::size_t at = 0; at < to.size(); ++at) {
    float all = 0.0F;
    for (std::size_t i = 0; i < call.inputs(); ++i) all += call.input(i).as<float>()[at];
    to[at] = all;
  }
}

/// Adds up all rows, for the gradient of a bias that was added to each.
void sum_to(KernelCall& call) {
  const std::span<const float> from = call.input(0).as<float>();
  const std::span<float> to = call.output(0).as<float>();
  expect(call.input(0).shape().dims() == 2 && call.output(0).shape().dims() == 1,
         "this kernel sums up the rows of a matrix alone");
  std::ranges::fill(to, 0.0F);
  for (std::size_t i = 0; i < from.size(); ++i) to[i % to.size()] += from[i];
}

/// For the gradient of a convolution's bias: the sum of each channel.
void reduce_sum(KernelCall& call) {
  const Tensor& x = call.input(0);
  expect(x.shape().dims() == 4 && call.attributes().sizes("axes") == Sizes({0, 2, 3}),
         "this kernel sums up channels alone");
  const std::span<const float> from = x.as<float>();
  const std::span<float> to = call.output(0).as<float>();
  std::ranges::fill(to, 0.0F);
  const std::size_t plane = size(x, 2) * size(x, 3);
  for (std::size_t at = 0; at < from.size(); at += plane) {
    float all = 0.0F;
    for (std::size_t i = 0; i < plane; ++i) all += from[at + i];
    to[at / plane % to.size()] += all;
  }
}

void fill(KernelCall& call) {
  std::ranges::fill(call.output(0).as<float>(),
                    static_cast<float>(call.attributes().number("value")));
}

void loss(KernelCall& call) {
  expect(call.attributes().word("reduction") == "mean", "this kernel knows the mean alone");
  const std::span<const float> scores = call.input(0).as<float>();
  const std::span<const std::int64_t> labels = call.input(1).as<std::int64_t>();
  const std::span<float> log_prob = call.output(1).as<float>();
  const std::size_t classes = size(call.input(0), 1);
  double total = 0.0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const float> row = scores.subspan(i * classes, classes);
    const float highest = *std::ranges::max_element(row);
    double all = 0.0;
    for (const float score : row) all += std::exp(score - highest);
    const double log_sum = std::log(all) + highest;
    for (std::size_t k = 0; k < classes; ++k)
      log_prob[i * classes + k] = static_cast<float>(row[k] - log_sum);
    total += log_sum - row[static_cast<std::size_t>(labels[i])];
  }
  call.output(0).as<float>()[0] = static_cast<float>(total / static_cast<double>(labels.size()));
}

void loss_grad(KernelCall& call) {
  const float share = call.input(0).as<float>()[0];
  const std::span<const float> log_prob = call.input(1).as<float>();
  const std::span<const std::int64_t> labels = call.input(2).as<std::int64_t>();
  const std::span<float> to = call.output(0).as<float>();
  const std::size_t classes = to.size() / labels.size();
  const float of_one = share / static_cast<float>(labels.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool is_wanted = static_cast<std::int64_t>(i % classes) == labels[i / classes];
    to[i] = of_one * (std::exp(log_prob[i]) - (is_wanted ? 1.0F : 0.0F));
  }
}

}  // namespace

Kernels make_kernels() {
  Kernels all;
  all.add("Conv", conv);
  all.add("weft.ConvGradInput", conv_grad_input);
  all.add("weft.ConvGradWeight", conv_grad_weight);
  all.add("MaxPool", max_pool);
  all.add("weft.MaxPoolGrad", max_pool_grad);
  all.add("Relu", relu);
  all.add("weft.ReluGrad", relu_grad);
  all.add("Gemm", gemm);
  all.add("weft.Scale", scale);
  all.add("Sum", sum);
  all.add("weft.SumTo", sum_to);
  all.add("ReduceSum", reduce_sum);
  all.add("weft.Fill", fill);
  all.add("SoftmaxCrossEntropyLoss", loss);
  all.add("weft.SoftmaxCrossEntropyLossGrad", loss_grad);
  return weft::pslib::with_updates(all);
}

}  // namespace images
