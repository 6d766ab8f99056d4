// The image classifier: its data and its gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "images.hpp"
#include "network.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace images {
namespace {

class Files : public testing::Test {
 protected:
  std::string with(const std::string& name, const std::string& bytes) const {
    const auto file = folder_.path() / name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }
  template <typename Read>
  static std::string refusal(const Read& read) {
    try {
      (void)read();
    } catch (const DataError& error) {
      return error.what();
    }
    return "nothing";
  }

  const weft::tests::TempFolder folder_;
};

std::string idx(const std::vector<int>& sizes, const std::string& data) {
  std::string bytes{0, 0, 8, static_cast<char>(sizes.size())};
  for (const int size : sizes) bytes += {0, 0, 0, static_cast<char>(size)};
  return bytes + data;
}

TEST_F(Files, OfMnistAreRead) {
  const auto all =
      read_idx(with("i", idx({2, 2, 2}, std::string("\0\xff\0\0", 4) + "\xff\xff\xff\xff")),
               with("l", idx({2}, std::string("\3\7", 2))));
  EXPECT_EQ(all.count(), 2U);
  EXPECT_EQ(all.height, 2);
  EXPECT_EQ(all.classes[1], 7);
  EXPECT_EQ(all.image(0)[0], -1.0F);
  EXPECT_EQ(all.image(0)[1], 1.0F);
}

TEST_F(Files, OfCifarAreRead) {
  const std::string record = '\5' + std::string(3072, '\0');
  const auto all = read_cifar({with("a", record + record), with("b", record)});
  EXPECT_EQ(all.count(), 3U);
  EXPECT_EQ(all.channels, 3);
  EXPECT_EQ(all.classes[2], 5);
}

TEST_F(Files, AreRefusedByName) {
  const std::string labels = with("l", idx({1}, "\1"));
  EXPECT_NE(refusal([&] {
              return read_idx(with("i", "\x1f\x8b rubbish"), labels);
            }).find("still compressed"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              return read_idx(with("i", idx({1, 2, 2}, "abc")), labels);
            }).find("3 bytes of data; its head says 4"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              return read_idx(with("i", idx({2, 1, 1}, "ab")), labels);
            }).find("not as many labels"),
            std::string::npos);
  EXPECT_NE(refusal([&] { return read_cifar({with("c", "abc")}); }).find("records of 3073"),
            std::string::npos);
}

TEST(DrawnImages, AreTheSameForASeedAndOfAllClasses) {
  const auto all = draw(200, 1);
  const auto fewer = draw(50, 1);
  EXPECT_TRUE(std::equal(fewer.pixels.begin(), fewer.pixels.end(), all.pixels.begin()));
  for (int digit = 0; digit < kClasses; ++digit)
    EXPECT_GT(std::ranges::count(all.classes, digit), 5) << digit;
}

/// All parameters of a network for 1 x 6 x 6 images, in one array.
struct Parameters {
  std::vector<float> values = std::vector<float>(8 * 9 + 8 + 16 * 8 * 9 + 16 + 10 * 16 + 10);

  Weights weights() {
    std::span<float> rest = values;
    const auto take = [&](std::size_t count) {
      const auto part = rest.first(count);
      rest = rest.subspan(count);
      return part;
    };
    return {take(8 * 9), take(8), take(16 * 8 * 9), take(16), take(10 * 16), take(10)};
  }
};

TEST(Networks, HaveTheSlopesOfTheirLoss) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 0.4F);
  Network network(1, 6, 6);
  ASSERT_EQ(network.features(), 16U);
  Parameters parameters;
  Parameters gradients;
  std::vector<float> image(36);
  for (float& value : parameters.values) value = normal(random);
  for (float& value : image) value = normal(random);
  network.train(parameters.weights(), image, 3, 1.0F, gradients.weights());
  const auto loss = [&] {
    Parameters unused;
    return network.train(parameters.weights(), image, 3, 1.0F, unused.weights());
  };
  const double here = loss();
  int smooth = 0;
  for (int i = 0; i < 150; ++i) {
    const std::size_t at = random() % parameters.values.size();
    constexpr float kStep = 1e-3F;
    float& value = parameters.values[at];
    const float before = value;
    value = before + kStep;
    const double above = (loss() - here) / kStep;
    value = before - kStep;
    const double below = (here - loss()) / kStep;
    value = before;
    if (std::abs(above - below) > 0.02) continue;  // a ramp or a maximum has its kink there
    ++smooth;
    EXPECT_NEAR((above + below) / 2, gradients.values[at], 5e-3) << "parameter " << at;
  }
  EXPECT_GT(smooth, 130);
}

}  // namespace
}  // namespace images
