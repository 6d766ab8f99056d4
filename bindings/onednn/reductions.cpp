// Sums, means and maxima over dimensions. oneDNN has vector code only for those over the last ones;
// it would do the others one element after the other, so they are loops.
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "bindings/onednn/arithmetic.hpp"
#include "bindings/onednn/kernel_set.hpp"
#include "bindings/onednn/rows.hpp"

namespace weft::dataflow::onednn {
namespace {

enum class Reduction { sum, mean, max };

/// The shape of the result of reducing input `data`, with a 1 for each reduced dimension: by the
/// attribute `axes`, or to the shape of input 1 (weft.SumTo).
Shape reduced_shape(const Operands& operands, std::size_t data) {
  const Shape& x = operands.shape(data);
  std::array<std::int64_t, Shape::kMaxDims> sizes;
  sizes.fill(1);
  const std::span all(sizes.data(), x.dims());
  if (operands.attributes().find("axes") == nullptr) {
    const Shape& like = operands.shape(1);
    for (std::size_t d = 0; d < like.dims(); ++d) sizes[d + x.dims() - like.dims()] = like[d];
    return Shape(all);
  }
  const Sizes& axes = operands.attributes().sizes("axes");
  for (std::size_t d = 0; d < x.dims(); ++d) {
    const auto from_end = static_cast<std::int64_t>(d) - static_cast<std::int64_t>(x.dims());
    const bool is_reduced = axes.empty() ||
                            std::find(axes.begin(), axes.end(), from_end) != axes.end() ||
                            std::find(axes.begin(), axes.end(), std::int64_t(d)) != axes.end();
    if (!is_reduced) sizes[d] = x[d];
  }
  return Shape(all);
}

bool reduces_last(const Operands& operands) {
  const Shape& x = operands.shape(0);
  if (operands.dtype(0) != DType::f32 || x.elements() == 0) return false;
  const Shape reduced = reduced_shape(operands, 0);
  bool has_reduced = false;
  for (std::size_t d = 0; d < x.dims(); ++d) {
    if (x[d] == 1) continue;
    if (has_reduced && reduced[d] != 1) return false;
    has_reduced |= reduced[d] == 1;
  }
  return has_reduced;
}

void build_reduction(Routine& routine, const Operands& operands, dnnl::algorithm algorithm) {
  const std::int64_t kept = reduced_shape(operands, 0).elements();
  const Desc from = row_major({kept, operands.shape(0).elements() / kept});
  const Desc to = row_major({kept, 1});
  routine.run<dnnl::reduction>(
      {dnnl::reduction::desc(algorithm, from, to, 0, 0), own_scratchpad(), routine.engine()},
      {{DNNL_ARG_SRC, routine.input(0, from)}, {DNNL_ARG_DST, routine.output(0, to)}});
}

template <typename T>
auto mapped(T* data, std::int64_t count) {
  using Array = Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>;
  return Eigen::Map<std::conditional_t<std::is_const_v<T>, const Array, Array>>(data, count);
}

template <typename T>
T sum_of(const T* x, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    return mapped(x, count).sum();
  } else {
    T all = 0;
    for (std::int64_t k = 0; k < count; ++k) all = sum(all, x[k]);
    return all;
  }
}

template <typename T>
void add_row(T* to, const T* x, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>)
    mapped(to, count) += mapped(x, count);
  else
    for (std::int64_t k = 0; k < count; ++k) to[k] = sum(to[k], x[k]);
}

/// NaN if one of both is.
template <typename T>
T larger(T a, T b) {
  return a > b || a != a ? a : b;
}

/// Reduces row by row of the data.
template <typename T>
void reduce_rows(const Operands& operands, const Shape& reduced, bool is_max) {
  const T* const x = reinterpret_cast<const T*>(operands.input(0).data());
  T* const y = reinterpret_cast<T*>(operands.output(0).data());
  using Limits = std::numeric_limits<T>;
  const T least = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  std::fill_n(y, reduced.elements(), is_max ? least : T(0));
  for_each_row(operands.shape(0), reduced, [&](auto at, auto to, auto step, auto count) {
    if (is_max)
      for (std::int64_t k = 0; k < count; ++k)
        y[to + k * step] = larger(y[to + k * step], x[at + k]);
    else if (step == 0)
      y[to] = sum(y[to], sum_of(x + at, count));
    else
      add_row(y + to, x + at, count);
  });
}

/// An integer need not hold the number of elements.
template <typename T>
T divided(T x, std::int64_t count) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(x / count);
  else
    return x / static_cast<T>(count);
}

void reduce(const Operands& operands, Reduction reduction) {
  const Shape reduced = reduced_shape(operands, 0);
  const Shape& x = operands.shape(0);
  if (operands.output(0).bytes() == 0) return;
  if (x.elements() == 0 && reduction != Reduction::sum)
    operands.refuse("there is no mean or maximum of no elements");
  with_number(operands, operands.dtype(0), [&]<typename T>(T) {
    reduce_rows<T>(operands, reduced, reduction == Reduction::max);
    if (reduction != Reduction::mean) return;
    const auto count = x.elements() / reduced.elements();
    T* const y = reinterpret_cast<T*>(operands.output(0).data());
    for (std::int64_t k = 0; k < reduced.elements(); ++k) y[k] = divided(y[k], count);
  });
}

/// Inputs dreduced, data: each element gets its result's gradient, divided by `divisor`.
void spread(const Operands& operands, bool is_mean) {
  const Shape reduced = reduced_shape(operands, 1);
  const Shape& x = operands.shape(1);
  const Tensor& result = operands.output(0);
  if (result.bytes() == 0) return;
  const std::int64_t divisor = is_mean ? x.elements() / reduced.elements() : 1;
  with_number(operands, operands.dtype(0), [&]<typename T>(T) {
    const T* const g = reinterpret_cast<const T*>(operands.input(0).data());
    T* const to = reinterpret_cast<T*>(result.data());
    for_each_row(x, reduced, [&](auto at, auto from, auto step, auto count) {
      for (std::int64_t k = 0; k < count; ++k) to[at + k] = divided(g[from + k * step], divisor);
    });
  });
}

/// Inputs dreduced, data, reduced: the first maximum gets the gradient. NaN is one.
void build_max_gradient(Routine& routine, const Operands& operands) {
  const Shape x = operands.shape(1);
  const Shape reduced = reduced_shape(operands, 1);
  const auto small = row_major({reduced.elements()});
  const auto large = row_major({x.elements()});
  const auto found = routine.scratch(small);
  routine.zero(found);
  routine.run([=, g = routine.input(0, small), data = routine.input(1, large),
               max = routine.input(2, small),
               to = routine.output(0, large)](const Routine& run, const Operands&) {
    for_each_row(x, reduced, [&](auto at, auto from, auto step, auto count) {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t cell = from + k * step;
        float& is_found = run.data<float>(found)[cell];
        const float value = run.data<float>(data)[at + k];
        const bool is_first =
            is_found == 0 && (value == run.data<float>(max)[cell] || std::isnan(value));
        if (is_first) is_found = 1;
        run.data<float>(to)[at + k] = is_first ? run.data<float>(g)[cell] : 0;
      }
    });
  });
}

template <dnnl::algorithm Algorithm>
void build_reduction_as(Routine& routine, const Operands& operands) {
  build_reduction(routine, operands, Algorithm);
}
template <Reduction Kind>
void reduce_as(const Operands& operands) {
  reduce(operands, Kind);
}

}  // namespace

void add_reductions(KernelSet& set) {
  using dnnl::algorithm;
  for (const char* name : {"ReduceSum", "weft.SumTo"})
    set.add_either(name, reduces_last, build_reduction_as<algorithm::reduction_sum>,
                   reduce_as<Reduction::sum>);
  set.add_either("ReduceMean", reduces_last, build_reduction_as<algorithm::reduction_mean>,
                 reduce_as<Reduction::mean>);
  // oneDNN's maximum passes over NaN.
  set.add_loops("ReduceMax", reduce_as<Reduction::max>);
  set.add_loops("weft.ReduceSumGrad", [](const Operands& operands) { spread(operands, false); });
  set.add_loops("weft.ReduceMeanGrad", [](const Operands& operands) { spread(operands, true); });
  set.add_primitives("weft.ReduceMaxGrad", build_max_gradient, {OfNothing::zeros});
}

}  // namespace weft::dataflow::onednn
