#include "pslib/compression/kernels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pslib/compression/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::pslib::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Codes = hn::Rebind<std::int8_t, D>;
using Narrow = hn::Rebind<std::int16_t, D>;
using Ints = hn::Rebind<std::int32_t, D>;

/// The largest scale that stays finite when multiplied by 127; the largest f32 over 127 rounds up.
constexpr float kLargestScale = std::bit_cast<float>(
    std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max() / 127.0F) - 1);
static_assert(127.0F * kLargestScale <= std::numeric_limits<float>::max());

std::size_t not_finite(const float* gradient, const float* residual, std::size_t count) {
  const std::size_t lanes = hn::Lanes(D());
  const auto is_finite = [](float value) {
    return std::abs(value) <= std::numeric_limits<float>::max();
  };
  const V most = hn::Set(D(), std::numeric_limits<float>::max());
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    const V sum = hn::Add(hn::LoadU(D(), gradient + at), hn::LoadU(D(), residual + at));
    if (!hn::AllTrue(D(), hn::Le(hn::Abs(sum), most))) break;
  }
  while (at < count && is_finite(gradient[at] + residual[at])) ++at;
  return at;
}

// Quantises a whole block; `values` holds t before and the residual after.
double quantise_block(std::int8_t* codes, float* scale_of, float* values) {
  const std::size_t lanes = hn::Lanes(D());
  V largest = hn::Zero(D());
  for (std::size_t at = 0; at < kQuantumBlock; at += lanes)
    largest = hn::Max(largest, hn::Abs(hn::Load(D(), values + at)));
  const float scale = std::min(hn::GetLane(hn::MaxOfLanes(D(), largest)) / 127.0F, kLargestScale);
  const bool is_normal = scale >= std::numeric_limits<float>::min();
  *scale_of = is_normal ? scale : 0.0F;
  const V factor = hn::Set(D(), *scale_of);
  const V inverse = hn::Set(D(), is_normal ? 1.0F / scale : 0.0F);
  const V most = hn::Set(D(), 127.0F);
  V squares = hn::Zero(D());
  for (std::size_t at = 0; at < kQuantumBlock; at += lanes) {
    const V value = hn::Load(D(), values + at);
    const V steps = hn::Min(hn::Max(hn::Mul(value, inverse), hn::Neg(most)), most);
    const auto code = hn::NearestInt(steps);
    hn::StoreU(hn::DemoteTo(Codes(), hn::DemoteTo(Narrow(), code)), Codes(), codes + at);
    const V left = hn::Sub(value, hn::Mul(factor, hn::ConvertTo(D(), code)));
    hn::Store(left, D(), values + at);
    squares = hn::Add(squares, hn::Mul(left, left));
  }
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), squares)));
}

// Works on a copy of each block; the last block is padded with zeros.
double quantise_all(std::int8_t* codes, float* scales, const float* gradient, float* residual,
                    std::size_t count) {
  HWY_ALIGN float values[kQuantumBlock];
  HWY_ALIGN std::int8_t written[kQuantumBlock];
  const std::size_t lanes = hn::Lanes(D());
  double squares = 0.0;
  for (std::size_t start = 0; start < count; start += kQuantumBlock) {
    const std::size_t size = std::min(kQuantumBlock, count - start);
    std::size_t at = 0;
    for (; at + lanes <= size; at += lanes)
      hn::Store(
          hn::Add(hn::LoadU(D(), gradient + start + at), hn::LoadU(D(), residual + start + at)),
          D(), values + at);
    for (; at < size; ++at) values[at] = gradient[start + at] + residual[start + at];
    std::fill(values + size, values + kQuantumBlock, 0.0F);
    squares += quantise_block(written, scales++, values);
    std::memcpy(codes + start, written, size);
    std::memcpy(residual + start, values, size * sizeof(float));
  }
  return squares;
}

void dequantise_all(float* to, const std::int8_t* codes, const float* scales, std::size_t first,
                    std::size_t count) {
  const std::size_t lanes = hn::Lanes(D());
  for (const std::size_t end = first + count; first < end;) {
    const std::size_t block = first / kQuantumBlock;
    const std::size_t stop = std::min(end, (block + 1) * kQuantumBlock);
    const V factor = hn::Set(D(), scales[block]);
    for (; first + lanes <= stop; first += lanes, to += lanes) {
      const auto wide = hn::PromoteTo(Ints(), hn::LoadU(Codes(), codes + first));
      hn::StoreU(hn::Mul(factor, hn::ConvertTo(D(), wide)), D(), to);
    }
    for (; first < stop; ++first) *to++ = scales[block] * static_cast<float>(codes[first]);
  }
}

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU; }

// Finds the k-th largest magnitude digit by digit: magnitudes of finite floats are ordered like
// their bits. Later digits are counted only among the few values that share the earlier digits.
std::uint32_t kth(const float* values, std::size_t count, std::size_t k) {
  struct Digit {
    unsigned shift;
    std::uint32_t range;
  };
  constexpr std::array<Digit, 3> kDigits{{{20, 2048}, {10, 1024}, {0, 1024}}};
  std::array<std::uint64_t, 2048> counts;
  std::uint32_t found = 0;
  for (const Digit digit : kDigits) {
    counts.fill(0);
    const unsigned above = digit.shift == 20 ? 31 : digit.shift + 10;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = magnitude(values[i]);
      if (bits >> above == found >> above) ++counts[(bits >> digit.shift) & (digit.range - 1)];
    }
    std::uint32_t place = digit.range - 1;
    for (; counts[place] < k; --place) k -= counts[place];
    found |= place << digit.shift;
  }
  return found;
}

double take(std::uint32_t* places, float* taken, float* values, std::size_t count, std::size_t k,
            std::uint32_t least) {
  const std::size_t lanes = hn::Lanes(D());
  const V bound = hn::Set(D(), std::bit_cast<float>(least));
  std::size_t larger = 0;
  for (std::size_t at = 0; at < count; ++at) larger += magnitude(values[at]) > least;
  std::size_t equals = k - larger;
  std::size_t done = 0;
  const auto look = [&](std::size_t at) {
    const std::uint32_t bits = magnitude(values[at]);
    if (bits < least || (bits == least && equals == 0)) return;
    equals -= bits == least;
    places[done] = static_cast<std::uint32_t>(at);
    taken[done++] = values[at];
    values[at] = 0.0F;
  };
  V squares = hn::Zero(D());
  double sum = 0.0;
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    if (!hn::AllFalse(D(), hn::Ge(hn::Abs(hn::LoadU(D(), values + at)), bound)))
      for (std::size_t i = 0; i < lanes; ++i) look(at + i);
    const V left = hn::LoadU(D(), values + at);
    squares = hn::Add(squares, hn::Mul(left, left));
    if ((at / lanes) % 64 != 63) continue;
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), squares)));
    squares = hn::Zero(D());
  }
  sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), squares)));
  for (; at < count; ++at) {
    look(at);
    sum += static_cast<double>(values[at]) * static_cast<double>(values[at]);
  }
  return sum;
}

}  // namespace
}  // namespace weft::pslib::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::pslib::kernels {

HWY_EXPORT(not_finite);
HWY_EXPORT(quantise_all);
HWY_EXPORT(dequantise_all);
HWY_EXPORT(kth);
HWY_EXPORT(take);

std::size_t find_not_finite(const float* gradient, const float* residual,
                            std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(not_finite)(gradient, residual, count);
}

double quantise(std::int8_t* codes, float* scales, const float* gradient, float* residual,
                std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(quantise_all)(codes, scales, gradient, residual, count);
}

void dequantise(float* to, const std::int8_t* codes, const float* scales, std::size_t first,
                std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(dequantise_all)(to, codes, scales, first, count);
}

std::uint32_t kth_magnitude(const float* values, std::size_t count, std::size_t k) noexcept {
  return HWY_DYNAMIC_DISPATCH(kth)(values, count, k);
}

double take_largest(std::uint32_t* places, float* taken, float* values, std::size_t count,
                    std::size_t k, std::uint32_t least) noexcept {
  return HWY_DYNAMIC_DISPATCH(take)(places, taken, values, count, k, least);
}

}  // namespace weft::pslib::kernels
#endif
