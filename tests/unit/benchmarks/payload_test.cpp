#include "benchmarks/harness/payload.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace weft::bench {
namespace {

class Payload : public testing::TestWithParam<std::size_t> {};

TEST_P(Payload, HoldsWhatWasFilled) {
  std::vector<unsigned char> buffer(GetParam());
  fill(buffer.data(), buffer.size(), 5);
  EXPECT_TRUE(holds(buffer.data(), buffer.size(), 5));
}

TEST_P(Payload, EveryWrongByteIsSeen) {
  std::vector<unsigned char> buffer(GetParam());
  fill(buffer.data(), buffer.size(), 5);
  for (unsigned char& byte : buffer) {
    byte ^= 0x10;
    EXPECT_FALSE(holds(buffer.data(), buffer.size(), 5));
    byte ^= 0x10;
  }
}

TEST_P(Payload, AnotherIterationsDataIsSeen) {
  std::vector<unsigned char> buffer(GetParam());
  fill(buffer.data(), buffer.size(), 5);
  for (std::uint64_t other = 1; other < 5; ++other)
    EXPECT_FALSE(holds(buffer.data(), buffer.size(), other));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Payload, testing::Values(4, 8, 13, 64, 1000));

TEST(Gradients, SumUpToWhatIsExpected) {
  constexpr std::size_t kCount = 100;
  std::vector<float> parameters(kCount, 0);
  std::vector<float> gradient(kCount);
  ExpectedParameters expected;
  for (std::uint64_t iteration = 1; iteration <= 20; ++iteration) {
    fill_gradient(gradient.data(), kCount, iteration);
    apply_gradient(parameters.data(), gradient.data(), kCount);
    expected.add(iteration);
    ASSERT_TRUE(expected.match(parameters.data(), kCount));
  }
  parameters[kCount - 1] += 1;
  EXPECT_FALSE(expected.match(parameters.data(), kCount));
}

TEST(Gradients, OfFourWorkersSumUpToWhatIsExpected) {
  constexpr std::size_t kCount = 100;
  std::vector<float> parameters(kCount, 0);
  std::array<std::vector<float>, 4> gradients;
  ExpectedParameters expected;
  for (std::uint64_t worker = 0; worker < 4; ++worker) {
    gradients[worker].resize(kCount);
    fill_gradient(gradients[worker].data(), kCount, 5 + worker);
    expected.add(5 + worker);
  }
  apply_gradients(
      parameters.data(),
      {gradients[0].data(), gradients[1].data(), gradients[2].data(), gradients[3].data()}, kCount);
  EXPECT_TRUE(expected.match(parameters.data(), kCount));
}

TEST(Payload, LargestIsFoundWhereverItLies) {
  for (const std::size_t count : {1U, 63U, 64U, 65U, 200U})
    for (std::size_t at = 0; at < count; ++at) {
      std::vector<float> elements(count, -2.0F);
      elements[at] = -1.0F;
      EXPECT_EQ(largest(elements.data(), count), -1.0F) << at << " of " << count;
    }
}

TEST(Payload, FloatsDifferFromIterationToIteration) {
  std::vector<float> first(100);
  std::vector<float> second(100);
  fill_floats(first.data(), first.size(), 1);
  fill_floats(second.data(), second.size(), 2);
  EXPECT_EQ(largest(first.data(), first.size()), 16.0F);
  EXPECT_EQ(largest(second.data(), second.size()), 17.0F);
}

}  // namespace
}  // namespace weft::bench
