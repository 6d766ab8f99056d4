// Vector kernels against element-by-element arithmetic: every type, operation and length of tail.
#include "base/kernels/combine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/mix64.hpp"

namespace weft::tests {
namespace {

using kernels::Combination;

constexpr std::array kCombinations{Combination::sum,    Combination::prod,    Combination::min,
                                   Combination::max,    Combination::bit_and, Combination::bit_or,
                                   Combination::bit_xor};
/// Counts around every number of lanes that a vector may have, at unaligned addresses.
constexpr std::array<std::size_t, 13> kCounts{0, 1, 2, 3, 7, 8, 15, 31, 33, 63, 65, 127, 259};
constexpr std::size_t kOff = 3;  ///< elements in front

template <typename T>
T reference(Combination combination, T a, T b) {
  switch (combination) {
    case Combination::min:
      return a < b ? a : b;
    case Combination::max:
      return a > b ? a : b;
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    return combination == Combination::sum ? a + b : a * b;
  } else {
    const auto x = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(a));
    const auto y = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(b));
    switch (combination) {
      case Combination::sum:
        return static_cast<T>(x + y);
      case Combination::prod:
        return static_cast<T>(x * y);
      case Combination::bit_and:
        return static_cast<T>(x & y);
      case Combination::bit_or:
        return static_cast<T>(x | y);
      default:
        return static_cast<T>(x ^ y);
    }
  }
}

/// Values that differ by position and, for integers, wrap around.
template <typename T>
T value(std::size_t i, std::size_t salt) {
  const std::uint64_t bits = (i + 1) * kGolden64 + salt * 0xff51afd7ed558ccd;
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) / T{64};
  else
    return static_cast<T>(bits >> 17);
}

template <typename T>
void check(DType dtype) {
  for (const Combination combination : kCombinations) {
    const kernels::Combine combine = kernels::combine_for(dtype, combination);
    const bool exists = !std::is_floating_point_v<T> || combination < Combination::bit_and;
    ASSERT_EQ(combine != nullptr, exists) << name(dtype);
    if (!exists) continue;
    for (const std::size_t count : kCounts) {
      std::vector<T> a(count + kOff + 1);
      std::vector<T> b(count + kOff + 1);
      for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = value<T>(i, 1);
        b[i] = value<T>(i, 2);
      }
      std::vector<T> expected = a;
      for (std::size_t i = kOff; i < kOff + count; ++i)
        expected[i] = reference(combination, a[i], b[i]);
      std::vector<T> apart = a;
      combine(reinterpret_cast<std::byte*>(apart.data() + kOff),
              reinterpret_cast<const std::byte*>(a.data() + kOff),
              reinterpret_cast<const std::byte*>(b.data() + kOff), count);
      EXPECT_EQ(apart, expected) << name(dtype) << ' ' << static_cast<int>(combination) << ' '
                                 << count;
      combine(reinterpret_cast<std::byte*>(a.data() + kOff),
              reinterpret_cast<const std::byte*>(a.data() + kOff),
              reinterpret_cast<const std::byte*>(b.data() + kOff), count);
      EXPECT_EQ(a, expected) << "in place, " << name(dtype) << ' ' << static_cast<int>(combination)
                             << ' ' << count;
    }
  }
}

TEST(Combine, GivesWhatScalarsGive) {
  check<double>(DType::f64);
  check<float>(DType::f32);
  check<std::int64_t>(DType::i64);
  check<std::int32_t>(DType::i32);
  check<std::int8_t>(DType::i8);
  check<std::uint8_t>(DType::u8);
}

/// 16-bit floats: through f32 and rounded once.
void check_halves(DType dtype) {
  for (const Combination combination : kCombinations) {
    const kernels::Combine combine = kernels::combine_for(dtype, combination);
    ASSERT_EQ(combine != nullptr, combination < Combination::bit_and);
    if (combine == nullptr) continue;
    for (const std::size_t count : kCounts) {
      std::vector<float> wide_a(count);
      std::vector<float> wide_b(count);
      for (std::size_t i = 0; i < count; ++i) {
        wide_a[i] = value<float>(i, 3) / 4096;
        wide_b[i] = value<float>(i, 4) / 4096;
      }
      std::vector<std::uint16_t> a(count);
      std::vector<std::uint16_t> b(count);
      const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
      kernels::narrow(bytes(a), dtype, wide_a.data(), count);
      kernels::narrow(bytes(b), dtype, wide_b.data(), count);
      kernels::widen(wide_a.data(), bytes(a), dtype, count);
      kernels::widen(wide_b.data(), bytes(b), dtype, count);
      for (std::size_t i = 0; i < count; ++i)
        wide_a[i] = reference(combination, wide_a[i], wide_b[i]);
      std::vector<std::uint16_t> expected(count);
      kernels::narrow(bytes(expected), dtype, wide_a.data(), count);
      combine(bytes(a), bytes(a), bytes(b), count);
      EXPECT_EQ(a, expected) << name(dtype) << ' ' << static_cast<int>(combination) << ' ' << count;
    }
  }
}

TEST(Combine, RoundsHalvesOnceToTheNearest) {
  check_halves(DType::f16);
  check_halves(DType::bf16);
  // Between 1 and the next bf16, a tie: to the even one, which is 1.
  const float tie = 1.0F + 1.0F / 256;
  std::uint16_t half = 0;
  kernels::narrow(reinterpret_cast<std::byte*>(&half), DType::bf16, &tie, 1);
  EXPECT_EQ(half, 0x3f80);
  const float nothing = std::numeric_limits<float>::quiet_NaN();
  float back = 0;
  kernels::narrow(reinterpret_cast<std::byte*>(&half), DType::bf16, &nothing, 1);
  kernels::widen(&back, reinterpret_cast<const std::byte*>(&half), DType::bf16, 1);
  EXPECT_TRUE(std::isnan(back));
}

TEST(Combine, StreamsTheSameSumIntoTwoPlacesOfAnyAlignment) {
  const auto streamed = kernels::combine_streamed_for(DType::f32, Combination::sum);
  if (streamed == nullptr) GTEST_SKIP() << "left out under this sanitizer";
  for (const std::size_t off : {0, 1, 5})
    for (const std::size_t count : {0, 1, 15, 100, 1003}) {
      std::vector<float> a(count);
      std::vector<float> b(count);
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        a[i] = value<float>(i, 5);
        b[i] = value<float>(i, 6);
        expected[i] = a[i] + b[i];
      }
      std::vector<float> one(count + off);
      std::vector<float> other(count + 2 * off);
      streamed(reinterpret_cast<std::byte*>(one.data() + off),
               reinterpret_cast<std::byte*>(other.data() + 2 * off),
               reinterpret_cast<const std::byte*>(a.data()),
               reinterpret_cast<const std::byte*>(b.data()), count);
      kernels::stream_fence();
      EXPECT_TRUE(
          std::equal(expected.begin(), expected.end(), one.begin() + static_cast<long>(off)));
      EXPECT_TRUE(
          std::equal(expected.begin(), expected.end(), other.begin() + static_cast<long>(2 * off)));
    }
}

/// -0 and 0 differ here, and every NaN is the same.
template <typename T>
std::string text_of(T value) {
  if (std::isnan(value)) return "nan";
  return (std::signbit(value) ? "-" : "+") + std::to_string(std::abs(value));
}

template <typename T>
void check_special_values(DType dtype) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T inf = std::numeric_limits<T>::infinity();
  const std::array<T, 6> values{nan, inf, -inf, T{0}, -T{0}, T{1}};
  for (const bool least : {true, false}) {
    const auto combine = kernels::combine_for(dtype, least ? Combination::min : Combination::max);
    for (const T a : values)
      for (const T b : values) {
        T expected = least ? std::fmin(a, b) : std::fmax(a, b);
        if (std::isnan(a) || std::isnan(b)) expected = nan;
        if (a == 0 && b == 0)
          expected =
              (least ? std::signbit(a) || std::signbit(b) : std::signbit(a) && std::signbit(b))
                  ? -T{0}
                  : T{0};
        // Inside a long array, where whole vectors are used, and alone, as a tail.
        for (const std::size_t count : {std::size_t{1}, std::size_t{37}}) {
          const std::vector<T> left(count, a);
          const std::vector<T> right(count, b);
          std::vector<T> result(count);
          combine(reinterpret_cast<std::byte*>(result.data()),
                  reinterpret_cast<const std::byte*>(left.data()),
                  reinterpret_cast<const std::byte*>(right.data()), count);
          for (const T value : result)
            ASSERT_EQ(text_of(value), text_of(expected))
                << (least ? "min of " : "max of ") << a << " and " << b;
        }
      }
  }
}

TEST(Combine, PropagatesNanAndOrdersZerosWhicheverComesFirst) {
  check_special_values<float>(DType::f32);
  check_special_values<double>(DType::f64);
}

TEST(Combine, TakesBooleansAsTruthValues) {
  const std::array<std::uint8_t, 4> a{0, 0, 1, 7};
  const std::array<std::uint8_t, 4> b{0, 1, 0, 2};
  const auto combined = [&](Combination combination) {
    std::array<std::uint8_t, 4> result{};
    kernels::combine_for(DType::boolean, combination)(
        reinterpret_cast<std::byte*>(result.data()), reinterpret_cast<const std::byte*>(a.data()),
        reinterpret_cast<const std::byte*>(b.data()), a.size());
    return result;
  };
  const std::array<std::uint8_t, 4> both{0, 0, 0, 1};
  const std::array<std::uint8_t, 4> either{0, 1, 1, 1};
  for (const auto combination : {Combination::prod, Combination::min, Combination::bit_and})
    EXPECT_EQ(combined(combination), both);
  for (const auto combination : {Combination::max, Combination::bit_or})
    EXPECT_EQ(combined(combination), either);
  EXPECT_EQ(combined(Combination::bit_xor), (std::array<std::uint8_t, 4>{0, 1, 1, 0}));
  EXPECT_EQ(kernels::combine_for(DType::boolean, Combination::sum), nullptr);
}

}  // namespace
}  // namespace weft::tests
