#include "base/kernels/combine.hpp"

#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/kernels/combine.cpp"
#include <hwy/foreach_target.h>  // before highway.h

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "base/kernels/elements.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Prod {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};
// IEEE 754-2019 minimum and maximum: NaN if either argument is NaN, and -0 below 0. Every NaN
// becomes the same one, so that the result's bits do not depend on the rank that had it.
template <class V>
HWY_INLINE V unless_nan(V result, V a, V b) {
  using D = hn::DFromV<V>;
  const auto nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
  const auto quiet = std::numeric_limits<hn::TFromD<D>>::quiet_NaN();
  return hn::IfThenElse(nan, hn::Set(D(), quiet), result);
}
struct Min {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return unless_nan(hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), hn::Min(a, b)), a, b);
  }
};
struct Max {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return unless_nan(hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), hn::Max(a, b)), a, b);
  }
};

// How elements of a type are loaded as vectors to calculate with, and stored.
template <typename T>
struct Plain {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kBytes = sizeof(T);

  static HWY_INLINE V load(const std::byte* from) {
    return hn::LoadU(D(), reinterpret_cast<const T*>(from));
  }
  static HWY_INLINE void store(V value, std::byte* to) {
    hn::StoreU(value, D(), reinterpret_cast<T*>(to));
  }
  static HWY_INLINE void stream(V value, std::byte* to) {
    hn::Stream(value, D(), reinterpret_cast<T*>(to));
  }
};

using F = hn::ScalableTag<float>;

struct Bf16 {
  using D = F;
  using V = hn::Vec<F>;
  using Half = hn::Rebind<std::uint16_t, F>;
  using Bits = hn::RebindToUnsigned<F>;
  static constexpr std::size_t kBytes = 2;

  static HWY_INLINE V load(const std::byte* from) {
    const auto half = hn::LoadU(Half(), reinterpret_cast<const std::uint16_t*>(from));
    return hn::BitCast(F(), hn::ShiftLeft<16>(hn::PromoteTo(Bits(), half)));
  }
  static HWY_INLINE hn::Vec<Half> rounded(V value) {
    const auto bits = hn::BitCast(Bits(), value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(Bits(), 1U));
    const auto nearest = hn::Add(bits, hn::Add(odd, hn::Set(Bits(), 0x7fffU)));
    const auto quiet = hn::Or(bits, hn::Set(Bits(), 0x400000U));
    const auto is_nan = hn::RebindMask(Bits(), hn::IsNaN(value));
    return hn::TruncateTo(Half(), hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, nearest)));
  }
  static HWY_INLINE void store(V value, std::byte* to) {
    hn::StoreU(rounded(value), Half(), reinterpret_cast<std::uint16_t*>(to));
  }
  static HWY_INLINE void stream(V value, std::byte* to) {
    hn::Stream(rounded(value), Half(), reinterpret_cast<std::uint16_t*>(to));
  }
};

struct F16 {
  using D = F;
  using V = hn::Vec<F>;
  using Half = hn::Rebind<hwy::float16_t, F>;
  static constexpr std::size_t kBytes = 2;

  static HWY_INLINE V load(const std::byte* from) {
    return hn::PromoteTo(F(), hn::LoadU(Half(), reinterpret_cast<const hwy::float16_t*>(from)));
  }
  static HWY_INLINE void store(V value, std::byte* to) {
    hn::StoreU(hn::DemoteTo(Half(), value), Half(), reinterpret_cast<hwy::float16_t*>(to));
  }
  static HWY_INLINE void stream(V value, std::byte* to) {
    hn::Stream(hn::DemoteTo(Half(), value), Half(), reinterpret_cast<hwy::float16_t*>(to));
  }
};

// Combines the last elements, fewer than a vector, in buffers, so that they get the same
// arithmetic.
template <class Type, class Op>
HWY_INLINE void combine_tail(std::byte* to, const std::byte* a, const std::byte* b,
                             std::size_t count) {
  HWY_ALIGN std::byte left[hn::MaxLanes(typename Type::D()) * Type::kBytes] = {};
  HWY_ALIGN std::byte right[hn::MaxLanes(typename Type::D()) * Type::kBytes] = {};
  std::memcpy(left, a, count * Type::kBytes);
  std::memcpy(right, b, count * Type::kBytes);
  Type::store(Op()(Type::load(left), Type::load(right)), left);
  std::memcpy(to, left, count * Type::kBytes);
}

template <class Type, class Op>
void combine(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  const std::size_t lanes = hn::Lanes(typename Type::D());
  const std::size_t step = lanes * Type::kBytes;
  for (; count >= 2 * lanes; count -= 2 * lanes) {
    const auto first = Op()(Type::load(a), Type::load(b));
    const auto second = Op()(Type::load(a + step), Type::load(b + step));
    Type::store(first, to);
    Type::store(second, to + step);
    a += 2 * step;
    b += 2 * step;
    to += 2 * step;
  }
  for (; count >= lanes; count -= lanes) {
    Type::store(Op()(Type::load(a), Type::load(b)), to);
    a += step;
    b += step;
    to += step;
  }
  if (count > 0) combine_tail<Type, Op>(to, a, b, count);
}

template <class Type>
void sum_streamed(std::byte* to, std::byte* to_too, const std::byte* a, const std::byte* b,
                  std::size_t count) {
  if (count == 0) return;  // an empty tensor may have a null pointer
  const std::size_t lanes = hn::Lanes(typename Type::D());
  const std::size_t step = lanes * Type::kBytes;
  // Streaming needs aligned addresses. Two targets of different alignment are written by ordinary
  // stores.
  const std::size_t off = reinterpret_cast<std::uintptr_t>(to) % 64;
  const bool alike = off == reinterpret_cast<std::uintptr_t>(to_too) % 64;
  const std::size_t head =
      alike && off % Type::kBytes == 0 ? HWY_MIN(count, (64 - off) % 64 / Type::kBytes) : count;
  combine<Type, Sum>(to, a, b, head);
  std::memcpy(to_too, to, head * Type::kBytes);
  a += head * Type::kBytes;
  b += head * Type::kBytes;
  to += head * Type::kBytes;
  to_too += head * Type::kBytes;
  count -= head;
  for (; count >= 2 * lanes; count -= 2 * lanes) {
    const auto first = hn::Add(Type::load(a), Type::load(b));
    const auto second = hn::Add(Type::load(a + step), Type::load(b + step));
    Type::stream(first, to);
    Type::stream(second, to + step);
    Type::stream(first, to_too);
    Type::stream(second, to_too + step);
    a += 2 * step;
    b += 2 * step;
    to += 2 * step;
    to_too += 2 * step;
  }
  combine<Type, Sum>(to, a, b, count);
  std::memcpy(to_too, to, count * Type::kBytes);
}

// Integers: plain loops, which the compiler vectorizes for each instruction set.
template <typename T, class Op>
void combine_integers(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  auto* result = reinterpret_cast<T*>(to);
  const auto* left = reinterpret_cast<const T*>(a);
  const auto* right = reinterpret_cast<const T*>(b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) result[i] = Op()(left[i], right[i]);
}

template <class Type>
Combine of_floats(Combination combination) {
  switch (combination) {
    case Combination::sum:
      return combine<Type, Sum>;
    case Combination::prod:
      return combine<Type, Prod>;
    case Combination::min:
      return combine<Type, Min>;
    case Combination::max:
      return combine<Type, Max>;
    default:
      return nullptr;
  }
}

template <typename T>
Combine of_integers(Combination combination) {
  switch (combination) {
    case Combination::sum:
      return combine_integers<T, WrappingSum<T>>;
    case Combination::prod:
      return combine_integers<T, WrappingProd<T>>;
    case Combination::min:
      return combine_integers<T, Lesser<T>>;
    case Combination::max:
      return combine_integers<T, Greater<T>>;
    case Combination::bit_and:
      return combine_integers<T, BitAnd<T>>;
    case Combination::bit_or:
      return combine_integers<T, BitOr<T>>;
    case Combination::bit_xor:
      return combine_integers<T, BitXor<T>>;
  }
  return nullptr;
}

Combine of_booleans(Combination combination) {
  switch (combination) {
    case Combination::prod:
    case Combination::min:
    case Combination::bit_and:
      return combine_integers<std::uint8_t, LogicalAnd>;
    case Combination::max:
    case Combination::bit_or:
      return combine_integers<std::uint8_t, LogicalOr>;
    case Combination::bit_xor:
      return combine_integers<std::uint8_t, LogicalXor>;
    default:
      return nullptr;
  }
}

Combine find(DType dtype, Combination combination) {
  switch (dtype) {
    case DType::f64:
      return of_floats<Plain<double>>(combination);
    case DType::f32:
      return of_floats<Plain<float>>(combination);
    case DType::f16:
      return of_floats<F16>(combination);
    case DType::bf16:
      return of_floats<Bf16>(combination);
    case DType::i64:
      return of_integers<std::int64_t>(combination);
    case DType::i32:
      return of_integers<std::int32_t>(combination);
    case DType::i8:
      return of_integers<std::int8_t>(combination);
    case DType::u8:
      return of_integers<std::uint8_t>(combination);
    case DType::boolean:
      return of_booleans(combination);
  }
  return nullptr;
}

CombineStreamed find_streamed(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return sum_streamed<Plain<double>>;
    case DType::f32:
      return sum_streamed<Plain<float>>;
    case DType::f16:
      return sum_streamed<F16>;
    case DType::bf16:
      return sum_streamed<Bf16>;
    default:
      return nullptr;
  }
}

template <class Type>
void widen_all(float* to, const std::byte* from, std::size_t count) {
  const std::size_t lanes = hn::Lanes(F());
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes)
    hn::StoreU(Type::load(from + at * Type::kBytes), F(), to + at);
  if (at == count) return;
  HWY_ALIGN std::byte narrow[hn::MaxLanes(F()) * Type::kBytes] = {};
  HWY_ALIGN float wide[hn::MaxLanes(F())];
  std::memcpy(narrow, from + at * Type::kBytes, (count - at) * Type::kBytes);
  hn::Store(Type::load(narrow), F(), wide);
  std::memcpy(to + at, wide, (count - at) * sizeof(float));
}

template <class Type>
void narrow_all(std::byte* to, const float* from, std::size_t count) {
  const std::size_t lanes = hn::Lanes(F());
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes)
    Type::store(hn::LoadU(F(), from + at), to + at * Type::kBytes);
  if (at == count) return;
  HWY_ALIGN float wide[hn::MaxLanes(F())] = {};
  HWY_ALIGN std::byte narrow[hn::MaxLanes(F()) * Type::kBytes];
  std::memcpy(wide, from + at, (count - at) * sizeof(float));
  Type::store(hn::Load(F(), wide), narrow);
  std::memcpy(to + at * Type::kBytes, narrow, (count - at) * Type::kBytes);
}

void widen(float* to, const std::byte* from, DType from_dtype, std::size_t count) {
  from_dtype == DType::f16 ? widen_all<F16>(to, from, count) : widen_all<Bf16>(to, from, count);
}

void narrow(std::byte* to, DType to_dtype, const float* from, std::size_t count) {
  to_dtype == DType::f16 ? narrow_all<F16>(to, from, count) : narrow_all<Bf16>(to, from, count);
}

}  // namespace
}  // namespace weft::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(find);
HWY_EXPORT(find_streamed);
HWY_EXPORT(widen);
HWY_EXPORT(narrow);

Combine combine_for(DType dtype, Combination combination) noexcept {
  return HWY_DYNAMIC_DISPATCH(find)(dtype, combination);
}

namespace {

// ThreadSanitizer does not see streamed stores and would miss races with them: it gets none.
#if defined(__SANITIZE_THREAD__)
constexpr bool kStreamedStores = false;
#else
constexpr bool kStreamedStores = true;
#endif

}  // namespace

CombineStreamed combine_streamed_for(DType dtype, Combination combination) noexcept {
  const bool streamed = kStreamedStores && combination == Combination::sum;
  return streamed ? HWY_DYNAMIC_DISPATCH(find_streamed)(dtype) : nullptr;
}

void stream_fence() noexcept { hwy::FlushStream(); }

void widen(float* to, const std::byte* from, DType from_dtype, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(widen)(to, from, from_dtype, count);
}

void narrow(std::byte* to, DType to_dtype, const float* from, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(narrow)(to, to_dtype, from, count);
}

}  // namespace weft::kernels
#endif
