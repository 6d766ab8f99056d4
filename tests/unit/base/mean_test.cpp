// Means of elements of every type; their sums may need more bits than the type.
#include "base/kernels/mean.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace weft::tests {
namespace {

/// The mean of `given`, at every position of a tensor of `count` elements.
template <typename T>
std::vector<T> mean_of(DType dtype, const std::vector<T>& given, std::size_t count) {
  const kernels::Mean mean(dtype, static_cast<int>(given.size()));
  std::vector<std::byte> sum(count * mean.wide());
  std::vector<std::byte> next(sum.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::vector<T> source(count, given[i]);
    mean.load(i == 0 ? sum.data() : next.data(), reinterpret_cast<const std::byte*>(source.data()),
              count);
    if (i > 0) mean.add()(sum.data(), sum.data(), next.data(), count);
  }
  mean.finish(sum.data(), count, static_cast<std::int64_t>(given.size()));
  std::vector<T> result(count);
  std::copy_n(sum.data(), count * sizeof(T), reinterpret_cast<std::byte*>(result.data()));
  return result;
}

template <typename T>
void expect_mean(DType dtype, const std::vector<T>& given, T expected) {
  for (const std::size_t count : {1, 3, 67})
    EXPECT_EQ(mean_of(dtype, given, count), std::vector<T>(count, expected))
        << name(dtype) << ", " << given.size() << " of them, " << count << " elements";
}

/// Floats: equal up to the rounding of the sum.
template <typename T>
void expect_close(DType dtype, const std::vector<T>& given, T expected) {
  const auto ranks = static_cast<T>(given.size());
  for (const T mean : mean_of(dtype, given, 5)) {
    EXPECT_TRUE(std::isfinite(mean)) << given.size() << " of " << expected;
    EXPECT_LE(std::abs(mean / expected - 1), ranks * std::numeric_limits<T>::epsilon());
  }
}

template <typename T>
void expect_means_of_the_largest(DType dtype) {
  const T most = std::numeric_limits<T>::max();
  const T least = std::numeric_limits<T>::lowest();
  for (const std::size_t ranks : {1, 2, 3, 5, 7, 8, 100}) {
    if constexpr (std::is_floating_point_v<T>) {
      expect_close(dtype, std::vector<T>(ranks, most), most);
      expect_close(dtype, std::vector<T>(ranks, least), least);
    } else {
      expect_mean(dtype, std::vector<T>(ranks, most), most);
      expect_mean(dtype, std::vector<T>(ranks, least), least);
    }
  }
}

TEST(Mean, OfTheLargestValuesIsTheLargestValue) {
  expect_means_of_the_largest<std::int8_t>(DType::i8);
  expect_means_of_the_largest<std::uint8_t>(DType::u8);
  expect_means_of_the_largest<std::int32_t>(DType::i32);
  expect_means_of_the_largest<std::int64_t>(DType::i64);
  expect_means_of_the_largest<float>(DType::f32);
  expect_means_of_the_largest<double>(DType::f64);
}

TEST(Mean, OfIntegersIsExactAndRoundedTowardsZero) {
  expect_mean<std::int8_t>(DType::i8, {127, 126}, 126);
  expect_mean<std::int8_t>(DType::i8, {-128, -127, -127}, -127);
  expect_mean<std::int32_t>(DType::i32, {7, 0, 0}, 2);
  expect_mean<std::int32_t>(DType::i32, {-7, 0, 0}, -2);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_mean<std::int64_t>(DType::i64, {most, most - 1, most - 2}, most - 1);
  expect_mean<std::int64_t>(DType::i64, {most, std::numeric_limits<std::int64_t>::min()}, 0);
}

TEST(Mean, OfFloatsIsWhatTheSumOverTheNumberOfRanksIs) {
  const std::vector<float> values{0.1F, 3.7F, -12.25F, 1e10F, 3e-12F};
  float sum = 0;
  for (const float value : values) sum += value;
  expect_mean<float>(DType::f32, values, sum / 5.0F);
}

TEST(Mean, KeepsInfinitiesAndNan) {
  const float inf = std::numeric_limits<float>::infinity();
  expect_mean<float>(DType::f32, {inf, 1, 2}, inf);
  expect_mean<float>(DType::f32, {-inf, 1, 2}, -inf);
  EXPECT_TRUE(std::isnan(mean_of<float>(DType::f32, {inf, -inf, 2}, 1).front()));
}

TEST(Mean, OfHalvesOverflowsOnlyWhereTheMeanDoes) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::uint16_t most = dtype == DType::f16 ? 0x7bff : 0x7f7f;
    for (const std::size_t ranks : {2, 3, 8})
      expect_mean<std::uint16_t>(dtype, std::vector<std::uint16_t>(ranks, most), most);
  }
}

}  // namespace
}  // namespace weft::tests
