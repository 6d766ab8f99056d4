// The click model: its data and its gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "clicks.hpp"
#include "model.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace clicks {
namespace {

class Files : public testing::Test {
 protected:
  std::filesystem::path with(const std::string& text) const {
    const auto file = folder_.path() / "clicks.csv";
    std::ofstream(file) << text;
    return file;
  }
  std::string refusal(const std::string& text) const {
    try {
      (void)read(with(text));
    } catch (const DataError& error) {
      return error.what();
    }
    return "nothing";
  }

  const weft::tests::TempFolder folder_;
};

std::string line(const std::string& label, char separator) {
  std::string text = label;
  for (int i = 0; i < 13; ++i) text += separator + std::to_string(i);
  for (int i = 0; i < 26; ++i) text += separator + std::string("cat");
  return text + "\n";
}

TEST_F(Files, AreReadWithTabsCommasANameLineAndMissingFields) {
  std::string names = "label";
  for (int i = 0; i < 39; ++i) names += ",c";
  const auto shown = read(
      with(names + "\n" + line("1", ',') + line("0", '\t') + "0" + std::string(39, ',') + "\n"));
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[0].clicked, 1.0F);
  EXPECT_FLOAT_EQ(shown[0].numbers[4], std::log1p(4.0F));
  EXPECT_NE(shown[0].categories[0], shown[0].categories[1]) << "of different columns";
  EXPECT_EQ(shown[0].categories, shown[1].categories);
  EXPECT_EQ(shown[2].numbers[12], 0.0F);
  EXPECT_NE(shown[2].categories[0], shown[1].categories[0]);
}

TEST_F(Files, AreRefusedByLine) {
  EXPECT_NE(refusal(line("1", ',') + "1,2\n").find(":2: 2 columns; 40"), std::string::npos);
  EXPECT_NE(refusal(line("1", ',') + line("7", ',')).find(":2: the label is \"7\""),
            std::string::npos);
  EXPECT_NE(refusal("").find("has no lines"), std::string::npos);
}

TEST_F(Files, HoldWhatIsMadeUp) {
  const auto file = folder_.path() / "made.csv";
  generate(file, 50, 3);
  const auto from_file = read(file);
  const auto made = made_up(50, 3);
  ASSERT_EQ(from_file.size(), made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(from_file[i].clicked, made[i].clicked);
    EXPECT_EQ(from_file[i].numbers, made[i].numbers);
    EXPECT_EQ(from_file[i].categories, made[i].categories);
  }
}

/// All parameters in one array, and their offsets.
struct Parameters {
  std::vector<float> values = std::vector<float>(kInputs * kHidden + 2 * kHidden + 14);

  Dense dense() {
    std::span<float> rest = values;
    const auto take = [&](std::size_t count) {
      const auto part = rest.first(count);
      rest = rest.subspan(count);
      return part;
    };
    return {take(kInputs * kHidden), take(kHidden), take(kHidden), take(13), take(1)};
  }
};

TEST(ClickModel, HasTheSlopesOfItsLoss) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0.0F, 0.2F);
  const auto batch = made_up(4, 5);
  Parameters parameters;
  Parameters gradients;
  std::vector<float> rows(batch.size() * 26 * kRow);
  std::vector<float> row_gradients(rows.size());
  for (float& value : parameters.values) value = normal(random);
  for (float& value : rows) value = normal(random);
  Model model;
  const auto loss = [&] {
    Parameters unused;
    std::vector<float> unused_rows(rows.size());
    return model.train(batch, parameters.dense(), rows, unused.dense(), unused_rows);
  };
  model.train(batch, parameters.dense(), rows, gradients.dense(), row_gradients);
  const auto check = [&](float& at, float slope) {
    constexpr float kStep = 1e-2F;
    const float before = at;
    at = before + kStep;
    const double above = loss();
    at = before - kStep;
    const double below = loss();
    at = before;
    EXPECT_NEAR((above - below) / (2 * kStep), slope, 2e-3);
  };
  for (int i = 0; i < 60; ++i) {
    const std::size_t at = random() % parameters.values.size();
    check(parameters.values[at], gradients.values[at]);
    const std::size_t row = random() % rows.size();
    check(rows[row], row_gradients[row]);
  }
}

}  // namespace
}  // namespace clicks
