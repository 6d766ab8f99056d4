#include "benchmarks/payload.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::bench
