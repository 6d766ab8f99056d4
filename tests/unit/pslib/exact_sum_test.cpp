// Sums of squares have the same bits in every order and for all partitions.
#include "pslib/optimizer/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace weft::pslib {
namespace {

bool same_words(const ExactSum& a, const ExactSum& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// Floats of very different sizes, from the smallest f32 to the largest.
std::vector<float> wild_floats(std::size_t count, std::mt19937& random) {
  std::vector<float> values(count);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random()) - 2e9F, static_cast<int>(random() % 250) - 155);
  return values;
}

ExactSum sum_of(std::span<const float> values) {
  ExactSum sum;
  add_squares(sum, values);
  sum.carry();
  return sum;
}

TEST(ExactSums, DontDependOnTheOrderOfTheParts) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto values = wild_floats(16 * (1 + random() % 200), random);
    const ExactSum whole = sum_of(values);
    std::vector<ExactSum> parts;
    for (std::size_t from = 0; from < values.size();) {
      const std::size_t lines = 1 + random() % ((values.size() - from) / 16);
      parts.push_back(sum_of(std::span(values).subspan(from, lines * 16)));
      from += lines * 16;
    }
    std::ranges::shuffle(parts, random);
    ExactSum sum;
    for (const ExactSum& part : parts) sum.add(part);
    ASSERT_TRUE(same_words(sum, whole));
  }
}

TEST(ExactSums, AreRightToTheLastBits) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<float> values(1 + random() % 3000);
    for (float& value : values) value = static_cast<float>(random() % 2000) / 16.0F;
    long double expected = 0;
    for (const float value : values) expected += static_cast<long double>(value) * value;
    ASSERT_DOUBLE_EQ(sum_of(values).value(), static_cast<double>(expected));
  }
}

TEST(ExactSums, HoldTheLeastAndTheLargest) {
  const std::vector<float> least(16, std::numeric_limits<float>::denorm_min());
  EXPECT_DOUBLE_EQ(sum_of(least).value(), std::ldexp(1.0, -294));
  const std::vector<float> largest(16, std::numeric_limits<float>::max());
  EXPECT_NEAR(sum_of(largest).value() / std::ldexp(1.0, 260), 1.0, 1e-6);
  ExactSum both = sum_of(least);
  both.add(sum_of(largest));
  EXPECT_FALSE(same_words(both, sum_of(largest))) << "nothing is lost";
  EXPECT_EQ(sum_of({}).value(), 0.0);
}

TEST(ExactSums, AreNanForGoodOnceSomethingWasNotFinite) {
  const std::vector<float> bad{1.0F, std::numeric_limits<float>::infinity()};
  ExactSum sum = sum_of(bad);
  EXPECT_TRUE(std::isnan(sum.value()));
  sum.add(sum_of(std::vector<float>{1.0F}));
  EXPECT_TRUE(std::isnan(sum.value()));
}

TEST(ExactSums, AreTakenForThoseOfNoRankWhereTheirWordsAreOutOfRange) {
  EXPECT_TRUE(ExactSum().is_plausible());
  EXPECT_TRUE(sum_of(std::vector<float>(100, std::numeric_limits<float>::max())).is_plausible());
  EXPECT_TRUE(sum_of(std::vector<float>{NAN}).is_plausible());
  for (std::size_t word = 0; word < ExactSum::kWords; ++word)
    for (const std::int64_t wrong : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
      ExactSum sum;
      std::memcpy(reinterpret_cast<std::byte*>(&sum) + word * sizeof wrong, &wrong, sizeof wrong);
      EXPECT_FALSE(sum.is_plausible()) << "word " << word;
    }
}

}  // namespace
}  // namespace weft::pslib
