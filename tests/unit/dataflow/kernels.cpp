// Kernels of the other operators, and gradients by tape.
#include "tests/unit/dataflow/kernels.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>

namespace weft::dataflow::reference {
namespace {

/// The index in an array of `sizes` of element `i` of an array of `to`, to which it is broadcast.
std::size_t broadcast_index(std::size_t i, const Sizes& to, const Sizes& sizes) {
  std::size_t index = 0;
  std::size_t stride = 1;
  for (std::size_t d = to.size(); d-- > 0;) {
    const auto size = static_cast<std::size_t>(to[d]);
    const std::size_t at = i % size;
    i /= size;
    if (d + sizes.size() < to.size()) continue;
    const auto own = static_cast<std::size_t>(sizes[d + sizes.size() - to.size()]);
    if (own != 1) index += at * stride;
    stride *= own;
  }
  return index;
}

template <typename Op>
void elementwise(Call& call, const Op& op) {
  const Array& y = call.out[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    double value = call.x(0)[broadcast_index(i, y.sizes, call.x(0).sizes)];
    for (std::size_t k = 1; k < call.in.size(); ++k)
      value = op(value, call.x(k)[broadcast_index(i, y.sizes, call.x(k).sizes)]);
    y[i] = value;
  }
}

template <typename Op>
void map_each(Call& call, const Op& op) {
  for (std::size_t i = 0; i < call.out[0].size(); ++i) call.out[0][i] = op(call.x(0)[i]);
}

void copy(Call& call, std::size_t input = 0) {
  if (call.out[0].data != call.x(input).data) *call.out[0].data = *call.x(input).data;
}

void sum_to(Call& call) {
  const Array& x = call.x(0);
  const Array& y = call.out[0];
  std::fill(y.data->begin(), y.data->end(), 0);
  for (std::size_t i = 0; i < x.size(); ++i) y[broadcast_index(i, x.sizes, y.sizes)] += x[i];
}

void matmul(Call& call) {
  const Array& a = call.x(0);
  const Array& b = call.x(1);
  const Array& y = call.out[0];
  const std::int64_t rows = y.sizes[y.sizes.size() - 2];
  const std::int64_t columns = y.sizes.back();
  const std::int64_t depth = a.sizes.back();
  const Sizes batch(y.sizes.begin(), y.sizes.end() - 2);
  for (std::size_t n = 0; n < elements(batch); ++n) {
    const std::size_t of_a = broadcast_index(n, batch, Sizes(a.sizes.begin(), a.sizes.end() - 2));
    const std::size_t of_b = broadcast_index(n, batch, Sizes(b.sizes.begin(), b.sizes.end() - 2));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += a[of_a * std::size_t(rows * depth) + std::size_t(i * depth + k)] *
                 b[of_b * std::size_t(depth * columns) + std::size_t(k * columns + j)];
        y[n * std::size_t(rows * columns) + std::size_t(i * columns + j)] = sum;
      }
  }
}

void gemm(Call& call) {
  const bool ta = call.attributes.integer("transA") != 0;
  const bool tb = call.attributes.integer("transB") != 0;
  const Array& y = call.out[0];
  for (std::int64_t i = 0; i < y.dim(0); ++i)
    for (std::int64_t j = 0; j < y.dim(1); ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < call.x(0).dim(ta ? 0 : 1); ++k)
        sum += (ta ? call.x(0).at(k, i) : call.x(0).at(i, k)) *
               (tb ? call.x(1).at(j, k) : call.x(1).at(k, j));
      sum *= call.attributes.number("alpha");
      const std::size_t at = std::size_t(i * y.dim(1) + j);
      if (call.has(2))
        sum += call.attributes.number("beta") *
               call.x(2)[broadcast_index(at, y.sizes, call.x(2).sizes)];
      y[at] = sum;
    }
}

/// Moves between a whole array and its parts along an axis.
void move_parts(const Array& whole, const std::vector<Array>& parts, std::int64_t axis,
                bool into_parts) {
  const auto dims = std::int64_t(whole.sizes.size());
  const auto at = static_cast<std::ptrdiff_t>(axis < 0 ? axis + dims : axis);
  const std::size_t outer = elements(Sizes(whole.sizes.begin(), whole.sizes.begin() + at));
  const std::size_t all = elements(Sizes(whole.sizes.begin() + at, whole.sizes.end()));
  std::size_t before = 0;
  for (const Array& part : parts) {
    const std::size_t run = elements(Sizes(part.sizes.begin() + at, part.sizes.end()));
    for (std::size_t o = 0; o < outer; ++o)
      for (std::size_t i = 0; i < run; ++i) {
        double& of_whole = whole[o * all + before + i];
        double& of_part = part[o * run + i];
        into_parts ? of_part = of_whole : of_whole = of_part;
      }
    before += run;
  }
}

void transpose(Call& call) {
  const Array& x = call.x(0);
  const Array& y = call.out[0];
  Sizes perm = call.attributes.sizes("perm");
  if (perm.empty())
    for (std::size_t d = x.sizes.size(); d-- > 0;) perm.push_back(std::int64_t(d));
  Sizes strides(x.sizes.size(), 1);
  for (std::size_t d = x.sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * x.sizes[d];
  for (std::size_t i = 0; i < y.size(); ++i) {
    std::size_t rest = i;
    std::int64_t from = 0;
    for (std::size_t d = y.sizes.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(y.sizes[d]);
      from += std::int64_t(rest % size) * strides[std::size_t(perm[d])];
      rest /= size;
    }
    y[i] = x[std::size_t(from)];
  }
}

void dropout(Call& call) {
  const double ratio = call.attributes.number("ratio");
  const auto seed = static_cast<std::uint64_t>(call.attributes.integer("seed"));
  for (std::size_t i = 0; i < call.out[0].size(); ++i) {
    const std::uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15U ^ (seed * 0xbf58476d1ce4e5b9U);
    const bool keeps = double(bits >> 11U) / double(1ULL << 53U) >= ratio;
    call.out[1][i] = keeps ? 1 : 0;
    call.out[0][i] = keeps ? call.x(0)[i] / (1 - ratio) : 0;
  }
}

/// How a gradient node maps to the forward operator: the forward inputs and the gradients of the
/// forward outputs by input of the gradient node (-1: left out), and the forward input of each
/// output.
struct ByTape {
  const char* forward;
  std::vector<int> inputs;
  std::vector<int> gradients;
  std::vector<std::size_t> wanted;
};

const std::map<std::string, ByTape>& by_tape() {
  static const std::map<std::string, ByTape> map = {
      {"weft.ConvGradInput", {"Conv", {2, 1}, {0}, {0}}},
      {"weft.ConvGradWeight", {"Conv", {1, 2}, {0}, {1}}},
      {"weft.MaxPoolGrad", {"MaxPool", {1}, {0}, {0}}},
      {"weft.AveragePoolGrad", {"AveragePool", {1}, {0}, {0}}},
      {"weft.BatchNormalizationGrad", {"BatchNormalization", {1, 2, 2, 3, 4}, {0}, {0, 1, 2}}},
      {"weft.ReduceSumGrad", {"ReduceSum", {1}, {0}, {0}}},
      {"weft.ReduceMeanGrad", {"ReduceMean", {1}, {0}, {0}}},
      {"weft.ReduceMaxGrad", {"ReduceMax", {1}, {0}, {0}}},
      {"weft.GatherGrad", {"Gather", {2, 1}, {0}, {0}}},
      {"weft.SoftmaxCrossEntropyLossGrad", {"SoftmaxCrossEntropyLoss", {1, 2}, {0}, {0}}},
      {"weft.LSTMGrad", {"LSTM", {0, 1, 2, 3, -1, 4, 5}, {7, 8, 9}, {0, 1, 2, 3, 5, 6}}},
      {"weft.GRUGrad", {"GRU", {0, 1, 2, 3, -1, 4}, {6, 7}, {0, 1, 2, 3, 5}}}};
  return map;
}

/// The sizes of a recurrent operator's states; every other forward output has its gradient's.
Sizes output_sizes(const ByTape& map, const Call& call, std::size_t output) {
  if (output < map.gradients.size()) return call.x(std::size_t(map.gradients[output])).sizes;
  return call.x(std::size_t(map.inputs[0])).sizes;  // log_prob
}

void run_by_tape(const ByTape& map, Call& call) {
  Tape tape;
  CallOf<Var> forward{call.attributes, {}, {}};
  const std::string name = map.forward;
  for (std::size_t i = 0; i < map.inputs.size(); ++i) {
    const int from = map.inputs[i];
    forward.in.emplace_back();
    Array values;
    if (from >= 0) values = call.in[std::size_t(from)];
    // An optional input that is left out counts as zeros, whose gradient is an output too.
    const auto wanted = std::find(map.wanted.begin(), map.wanted.end(), i);
    if (values.none() && wanted != map.wanted.end())
      values = Array(call.out[std::size_t(wanted - map.wanted.begin())].sizes);
    if (values.none()) continue;
    forward.in.back() = ArrayOf<Var>(values.sizes);
    for (std::size_t k = 0; k < values.size(); ++k) forward.in.back()[k] = Var(values[k], tape);
  }
  const std::size_t outputs = name == "SoftmaxCrossEntropyLoss" ? 2 : map.gradients.size();
  for (std::size_t i = 0; i < outputs; ++i) forward.out.emplace_back(output_sizes(map, call, i));
  run_differentiable(name, forward);
  tape.start();
  for (std::size_t i = 0; i < map.gradients.size(); ++i)
    for (std::size_t k = 0; k < forward.out[i].size(); ++k)
      if (forward.out[i][k].at >= 0)
        tape.adjoints()[std::size_t(forward.out[i][k].at)] +=
            call.x(std::size_t(map.gradients[i]))[k];
  tape.run_back();
  for (std::size_t i = 0; i < map.wanted.size(); ++i)
    for (std::size_t k = 0; k < call.out[i].size(); ++k)
      call.out[i][k] = tape.adjoints()[std::size_t(forward.in[map.wanted[i]][k].at)];
}

using Kernel = std::function<void(Call&)>;

const std::map<std::string, Kernel>& kernels() {
  static const std::map<std::string, Kernel> all = {
      {"Add", [](Call& c) { elementwise(c, std::plus<>()); }},
      {"Sum", [](Call& c) { elementwise(c, std::plus<>()); }},
      {"Mul", [](Call& c) { elementwise(c, std::multiplies<>()); }},
      {"Relu", [](Call& c) { map_each(c, [](double x) { return x > 0 ? x : 0; }); }},
      {"Sigmoid", [](Call& c) { map_each(c, [](double x) { return 1 / (1 + std::exp(-x)); }); }},
      {"Tanh", [](Call& c) { map_each(c, [](double x) { return std::tanh(x); }); }},
      {"weft.ReluGrad",
       [](Call& c) { elementwise(c, [](double g, double y) { return y > 0 ? g : 0; }); }},
      {"weft.SigmoidGrad",
       [](Call& c) { elementwise(c, [](double g, double y) { return g * y * (1 - y); }); }},
      {"weft.TanhGrad",
       [](Call& c) { elementwise(c, [](double g, double y) { return g * (1 - y * y); }); }},
      {"weft.Scale",
       [](Call& c) { map_each(c, [&](double x) { return x * c.attributes.number("factor"); }); }},
      {"Dropout", dropout},
      {"weft.DropoutGrad",
       [](Call& c) {
         const double factor = 1 / (1 - c.attributes.number("ratio"));
         elementwise(c, [&](double g, double mask) { return g * mask * factor; });
       }},
      {"weft.SumTo", sum_to},
      {"MatMul", matmul},
      {"Gemm", gemm},
      {"Concat", [](Call& c) { move_parts(c.out[0], c.in, c.attributes.integer("axis"), false); }},
      {"Split", [](Call& c) { move_parts(c.x(0), c.out, c.attributes.integer("axis"), true); }},
      {"weft.ConcatGrad",
       [](Call& c) { move_parts(c.x(0), c.out, c.attributes.integer("axis"), true); }},
      {"Reshape", [](Call& c) { copy(c); }},
      {"weft.ReshapeLike", [](Call& c) { copy(c); }},
      {"weft.Assign", [](Call& c) { copy(c, 1); }},
      {"Transpose", transpose},
      {"weft.ZerosLike",
       [](Call& c) { std::fill(c.out[0].data->begin(), c.out[0].data->end(), 0); }},
      {"weft.Fill", [](Call& c) {
         std::fill(c.out[0].data->begin(), c.out[0].data->end(), c.attributes.number("value"));
       }}};
  return all;
}

}  // namespace

void run_kernel(const std::string& name, Call& call) {
  if (const auto kernel = kernels().find(name); kernel != kernels().end()) {
    kernel->second(call);
  } else if (const auto map = by_tape().find(name); map != by_tape().end()) {
    run_by_tape(map->second, call);
  } else if (!run_differentiable(name, call)) {
    throw std::runtime_error("no reference kernel for " + name);
  }
}

}  // namespace weft::dataflow::reference
