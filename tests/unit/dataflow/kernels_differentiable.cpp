// Forward kernels of operators whose gradients the tape computes.
#include <algorithm>

#include "tests/unit/dataflow/kernels.hpp"

namespace weft::dataflow::reference {
namespace {

std::int64_t one_of(const Attributes& attributes, const char* name, std::size_t i,
                    std::int64_t otherwise) {
  const AttributeValue* value = attributes.find(name);
  if (value == nullptr || std::get<Sizes>(*value).empty()) return otherwise;
  return std::get<Sizes>(*value)[i];
}

/// Calls act(position outside, position inside or -1 when in the padding) for a 2-D window.
template <typename Act>
void for_window(const Attributes& attributes, const Sizes& x, std::int64_t oh, std::int64_t ow,
                std::int64_t kh, std::int64_t kw, const Act& act) {
  for (std::int64_t i = 0; i < kh; ++i)
    for (std::int64_t j = 0; j < kw; ++j) {
      const std::int64_t h = oh * one_of(attributes, "strides", 0, 1) +
                             i * one_of(attributes, "dilations", 0, 1) -
                             one_of(attributes, "pads", 0, 0);
      const std::int64_t w = ow * one_of(attributes, "strides", 1, 1) +
                             j * one_of(attributes, "dilations", 1, 1) -
                             one_of(attributes, "pads", 1, 0);
      if (h >= 0 && h < x[2] && w >= 0 && w < x[3]) act(i, j, h, w);
    }
}

template <typename T>
void conv(CallOf<T>& call) {
  const auto& x = call.x(0);
  const auto& w = call.x(1);
  const auto& y = call.out[0];
  const std::int64_t group = call.attributes.integer("group");
  const std::int64_t out_per_group = w.dim(0) / group;
  for (std::int64_t n = 0; n < y.dim(0); ++n)
    for (std::int64_t m = 0; m < y.dim(1); ++m)
      for (std::int64_t oh = 0; oh < y.dim(2); ++oh)
        for (std::int64_t ow = 0; ow < y.dim(3); ++ow) {
          T sum = call.has(2) ? call.x(2)[static_cast<std::size_t>(m)] : T(0.0);
          for (std::int64_t c = 0; c < w.dim(1); ++c)
            for_window(call.attributes, x.sizes, oh, ow, w.dim(2), w.dim(3),
                       [&](auto i, auto j, auto h, auto v) {
                         sum += w.at(m, c, i, j) * x.at(n, m / out_per_group * w.dim(1) + c, h, v);
                       });
          y.at(n, m, oh, ow) = sum;
        }
}

template <typename T>
void pool(CallOf<T>& call, bool is_max) {
  const auto& x = call.x(0);
  const auto& y = call.out[0];
  const Sizes& kernel = call.attributes.sizes("kernel_shape");
  const bool counts_pad = !is_max && call.attributes.integer("count_include_pad") != 0;
  for (std::int64_t n = 0; n < y.dim(0); ++n)
    for (std::int64_t c = 0; c < y.dim(1); ++c)
      for (std::int64_t oh = 0; oh < y.dim(2); ++oh)
        for (std::int64_t ow = 0; ow < y.dim(3); ++ow) {
          T result = is_max ? T(-1e300) : T(0.0);
          int count = 0;
          for_window(call.attributes, x.sizes, oh, ow, kernel[0], kernel[1],
                     [&](auto, auto, auto h, auto w) {
                       ++count;
                       const T& one = x.at(n, c, h, w);
                       if (!is_max)
                         result += one;
                       else if (value_of(one) > value_of(result))
                         result = one;
                     });
          if (!is_max)
            result =
                result * T(1.0 / (counts_pad ? static_cast<double>(kernel[0] * kernel[1]) : count));
          y.at(n, c, oh, ow) = result;
        }
}

template <typename T>
void normalise(CallOf<T>& call) {
  const auto& x = call.x(0);
  const std::size_t channels = static_cast<std::size_t>(x.dim(1));
  const std::size_t inner = elements(Sizes(x.sizes.begin() + 2, x.sizes.end()));
  const bool trains = call.attributes.integer("training_mode") != 0;
  const auto at = [&](std::size_t n, std::size_t c, std::size_t i) {
    return (n * channels + c) * inner + i;
  };
  const auto batch = static_cast<std::size_t>(x.dim(0));
  const double count = static_cast<double>(batch * inner);
  for (std::size_t c = 0; c < channels; ++c) {
    T mean = call.x(3)[c];
    T var = call.x(4)[c];
    if (trains) {
      mean = T(0.0);
      for (std::size_t n = 0; n < batch; ++n)
        for (std::size_t i = 0; i < inner; ++i) mean += x[at(n, c, i)] * T(1 / count);
      var = T(0.0);
      for (std::size_t n = 0; n < batch; ++n)
        for (std::size_t i = 0; i < inner; ++i) {
          const T away = x[at(n, c, i)] - mean;
          var += away * away * T(1 / count);
        }
      if (call.out.size() > 1) {
        const double momentum = call.attributes.number("momentum");
        call.out[1][c] = call.x(3)[c] * T(momentum) + mean * T(1 - momentum);
        call.out[2][c] = call.x(4)[c] * T(momentum) + var * T(1 - momentum);
      }
    }
    const T factor = call.x(1)[c] / sqrt(var + T(call.attributes.number("epsilon")));
    for (std::size_t n = 0; n < batch; ++n)
      for (std::size_t i = 0; i < inner; ++i)
        call.out[0][at(n, c, i)] = (x[at(n, c, i)] - mean) * factor + call.x(2)[c];
  }
}

template <typename T>
void reduce(CallOf<T>& call, const std::string& name) {
  const auto& x = call.x(0);
  std::vector<bool> reduced(x.sizes.size(), call.attributes.sizes("axes").empty());
  for (const std::int64_t axis : call.attributes.sizes("axes"))
    reduced[static_cast<std::size_t>(axis < 0 ? axis + std::int64_t(x.sizes.size()) : axis)] = true;
  const auto& y = call.out[0];
  const bool is_max = name == "ReduceMax";
  std::fill(y.data->begin(), y.data->end(), T(is_max ? -1e300 : 0.0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t rest = i;
    std::size_t to = 0;
    std::size_t stride = 1;
    for (std::size_t d = x.sizes.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(x.sizes[d]);
      if (!reduced[d]) {
        to += rest % size * stride;
        stride *= size;
      }
      rest /= size;
    }
    if (!is_max)
      y[to] += x[i];
    else if (value_of(x[i]) > value_of(y[to]))
      y[to] = x[i];
  }
  if (name == "ReduceMean")
    for (T& one : *y.data) one = one * T(static_cast<double>(y.size()) / double(x.size()));
}

template <typename T>
void gather(CallOf<T>& call) {
  const auto& data = call.x(0);
  std::int64_t axis = call.attributes.integer("axis");
  if (axis < 0) axis += std::int64_t(data.sizes.size());
  const std::size_t outer = elements(Sizes(data.sizes.begin(), data.sizes.begin() + axis));
  const std::size_t inner = elements(Sizes(data.sizes.begin() + axis + 1, data.sizes.end()));
  const auto rows = static_cast<std::size_t>(data.sizes[static_cast<std::size_t>(axis)]);
  const std::size_t count = call.x(1).size();
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t i = 0; i < inner; ++i)
        call.out[0][(o * count + k) * inner + i] =
            data[(o * rows + static_cast<std::size_t>(value_of(call.x(1)[k]))) * inner + i];
}

template <typename T>
void loss(CallOf<T>& call) {
  const auto& scores = call.x(0);
  const std::size_t inner = elements(Sizes(scores.sizes.begin() + 2, scores.sizes.end()));
  const auto classes = static_cast<std::size_t>(scores.dim(1));
  const auto batch = static_cast<std::size_t>(scores.dim(0));
  const std::string& reduction = call.attributes.word("reduction");
  const double share = reduction == "mean" ? 1.0 / static_cast<double>(batch * inner) : 1.0;
  if (reduction != "none") call.out[0][0] = T(0.0);
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t i = 0; i < inner; ++i) {
      const auto at = [&](std::size_t c) { return (n * classes + c) * inner + i; };
      T sum(0.0);
      for (std::size_t c = 0; c < classes; ++c) sum += exp(scores[at(c)]);
      const T log_sum = log(sum);
      for (std::size_t c = 0; c < classes; ++c) call.out[1][at(c)] = scores[at(c)] - log_sum;
      const auto label = static_cast<std::size_t>(value_of(call.x(1)[n * inner + i]));
      const T one = T(-share) * call.out[1][at(label)];
      if (reduction == "none")
        call.out[0][n * inner + i] = one;
      else
        call.out[0][0] += one;
    }
}

}  // namespace

template <typename T>
bool run_differentiable(const std::string& name, CallOf<T>& call) {
  if (name == "Conv")
    conv(call);
  else if (name == "MaxPool" || name == "AveragePool")
    pool(call, name == "MaxPool");
  else if (name == "BatchNormalization")
    normalise(call);
  else if (name.starts_with("Reduce"))
    reduce(call, name);
  else if (name == "Gather")
    gather(call);
  else if (name == "SoftmaxCrossEntropyLoss")
    loss(call);
  else
    return run_recurrent(name, call);
  return true;
}
template bool run_differentiable(const std::string&, CallOf<double>&);
template bool run_differentiable(const std::string&, CallOf<Var>&);

}  // namespace weft::dataflow::reference
