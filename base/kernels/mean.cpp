#include "base/kernels/mean.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/kernels/mean.cpp"
#include <hwy/foreach_target.h>  // before highway.h

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::HWY_NAMESPACE {
namespace {

namespace mean_hn = hwy::HWY_NAMESPACE;

// Calls `op` on every vector of `count` elements. The last, incomplete one passes through a buffer.
template <typename T, class Op>
void transform(T* to, const T* from, std::size_t count, const Op& op) {
  const mean_hn::ScalableTag<T> d;
  const std::size_t lanes = mean_hn::Lanes(d);
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes)
    mean_hn::StoreU(op(mean_hn::LoadU(d, from + at)), d, to + at);
  if (at == count) return;
  HWY_ALIGN T last[mean_hn::MaxLanes(d)] = {};
  std::memcpy(last, from + at, (count - at) * sizeof(T));
  mean_hn::Store(op(mean_hn::Load(d, last)), d, last);
  std::memcpy(to + at, last, (count - at) * sizeof(T));
}

template <typename T>
void multiply(T* to, const T* from, std::size_t count, T factor) {
  const auto all = mean_hn::Set(mean_hn::ScalableTag<T>(), factor);
  transform(to, from, count, [&](auto value) { return mean_hn::Mul(value, all); });
}

// The mean of finite numbers is finite: a mean that rounding made infinite becomes the largest
// number.
template <typename T>
void divide_sums(T* data, std::size_t count, T divisor) {
  const mean_hn::ScalableTag<T> d;
  const auto all = mean_hn::Set(d, divisor);
  const auto most = mean_hn::Set(d, std::numeric_limits<T>::max());
  transform(data, data, count, [&](auto sum) {
    const auto mean = mean_hn::Div(sum, all);
    const auto past = mean_hn::And(mean_hn::IsInf(mean), mean_hn::IsFinite(sum));
    return mean_hn::IfThenElse(past, mean_hn::CopySign(most, mean), mean);
  });
}

void multiply_f32(float* to, const float* from, std::size_t count, float factor) {
  multiply(to, from, count, factor);
}
void multiply_f64(double* to, const double* from, std::size_t count, double factor) {
  multiply(to, from, count, factor);
}
void divide_f32(float* data, std::size_t count, float divisor) {
  divide_sums(data, count, divisor);
}
void divide_f64(double* data, std::size_t count, double divisor) {
  divide_sums(data, count, divisor);
}

}  // namespace
}  // namespace weft::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_f64);
HWY_EXPORT(divide_f32);
HWY_EXPORT(divide_f64);

namespace {

__extension__ using Int128 = __int128;

template <typename T>
T read(const std::byte* from, std::size_t i) noexcept {
  T value{};
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void write(std::byte* to, std::size_t i, T value) noexcept {
  std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

void add_int128(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    write<Int128>(to, i, read<Int128>(a, i) + read<Int128>(b, i));
}

template <typename Wide, typename T>
void widen_all(std::byte* to, const std::byte* from, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) write<Wide>(to, i, read<T>(from, i));
}

// A mean is narrower than its sum, so writing it never overtakes the sums still to be read.
template <typename Wide, typename T>
void divide_all(std::byte* data, std::size_t count, std::int64_t divisor) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    write<T>(data, i, static_cast<T>(read<Wide>(data, i) / static_cast<Wide>(divisor)));
}

std::size_t wide_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::i64:
      return sizeof(Int128);
    case DType::f64:
    case DType::i32:
      return 8;
    default:
      return 4;
  }
}

Combine add_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::i64:
      return add_int128;
    case DType::f64:
      return combine_for(DType::f64, Combination::sum);
    case DType::i32:
      return combine_for(DType::i64, Combination::sum);
    case DType::i8:
    case DType::u8:
      return combine_for(DType::i32, Combination::sum);
    default:
      return combine_for(DType::f32, Combination::sum);
  }
}

double scale_of(int ranks) noexcept {
  double scale = 1;
  for (int all = 1; all < ranks; all *= 2) scale /= 2;
  return scale;
}

}  // namespace

Mean::Mean(DType dtype, int ranks) noexcept
    : dtype_(dtype), scale_(scale_of(ranks)), wide_(wide_of(dtype)), add_(add_of(dtype)) {}

void Mean::load(std::byte* to, const std::byte* from, std::size_t count) const noexcept {
  auto* const wide = reinterpret_cast<float*>(to);
  switch (dtype_) {
    case DType::f64:
      return HWY_DYNAMIC_DISPATCH(multiply_f64)(
          reinterpret_cast<double*>(to), reinterpret_cast<const double*>(from), count, scale_);
    case DType::f32:
      return HWY_DYNAMIC_DISPATCH(multiply_f32)(wide, reinterpret_cast<const float*>(from), count,
                                                static_cast<float>(scale_));
    case DType::f16:
    case DType::bf16:
      widen(wide, from, dtype_, count);
      return HWY_DYNAMIC_DISPATCH(multiply_f32)(wide, wide, count, static_cast<float>(scale_));
    case DType::i64:
      return widen_all<Int128, std::int64_t>(to, from, count);
    case DType::i32:
      return widen_all<std::int64_t, std::int32_t>(to, from, count);
    case DType::i8:
      return widen_all<std::int32_t, std::int8_t>(to, from, count);
    default:
      return widen_all<std::int32_t, std::uint8_t>(to, from, count);
  }
}

void Mean::finish(std::byte* data, std::size_t count, std::int64_t divisor) const noexcept {
  const double by = static_cast<double>(divisor) * scale_;
  switch (dtype_) {
    case DType::f64:
      return HWY_DYNAMIC_DISPATCH(divide_f64)(reinterpret_cast<double*>(data), count, by);
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      HWY_DYNAMIC_DISPATCH(divide_f32)
      (reinterpret_cast<float*>(data), count, static_cast<float>(by));
      if (dtype_ != DType::f32) narrow(data, dtype_, reinterpret_cast<const float*>(data), count);
      return;
    case DType::i64:
      return divide_all<Int128, std::int64_t>(data, count, divisor);
    case DType::i32:
      return divide_all<std::int64_t, std::int32_t>(data, count, divisor);
    case DType::i8:
      return divide_all<std::int32_t, std::int8_t>(data, count, divisor);
    default:
      return divide_all<std::int32_t, std::uint8_t>(data, count, divisor);
  }
}

}  // namespace weft::kernels
#endif
