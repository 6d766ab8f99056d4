// Compression at the limits of numbers, of sizes and of what a peer may send.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "tests/unit/pslib/compression_sender.hpp"

namespace weft::tests::compression {
namespace {

TEST(Compression, KeepsWhatIsTooSmallForAScaleUntilItIsNot) {
  const Description table = table_of({{"t", Shape{300}}}, options_of(Compression::int8()));
  Sender sender(table);
  const float tiny = std::numeric_limits<float>::min() * 100;  // / 127 is no normal number
  ASSERT_TRUE(sender.send({Floats(300, tiny)}));
  EXPECT_EQ(sender.read(0), Floats(300, 0.0F));
  ASSERT_TRUE(sender.send({Floats(300, tiny)}));
  for (const float value : sender.read(0)) EXPECT_NEAR(value / tiny, 2.0F, 1e-5F);
}

TEST(Compression, OfTheLargestNumbersStaysFinite) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const Description table = table_of({{"t", Shape{300}}}, options_of(Compression::int8()));
  Sender sender(table);
  Floats values(300, 0.0F);
  values[0] = kMost;
  values[1] = -kMost;
  ASSERT_TRUE(sender.send({values}));
  const Floats read = sender.read(0);
  EXPECT_TRUE(std::isfinite(read[0]));
  EXPECT_EQ(read[1], -read[0]);
  EXPECT_NEAR(read[0] / kMost, 1.0F, 1e-6F);
  ASSERT_TRUE(sender.send({Floats(300, 0.0F)})) << "what was kept is finite";
}

TEST(Compression, RefusesWhatIsNotFiniteAndSendsAndChangesNothing) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const Compression& compression : {Compression::int8(), Compression::top_k(0.1F)}) {
    const Description table =
        table_of({{"w", Shape{6000}}, {"b", Shape{40}}}, options_of(compression));
    Sender undisturbed(table);
    Sender sender(table);
    std::mt19937 random(7);
    for (const float bad : {kInf, -kInf, kNaN}) {
      std::vector<Floats> values{random_floats(6000, random), random_floats(40, random)};
      ASSERT_TRUE(undisturbed.send(values));
      ASSERT_TRUE(sender.send(values));
      const auto sent = sender.bytes();
      values[1][33] = bad;
      const Status status = sender.send(values);
      ASSERT_EQ(status.code(), Code::bad_argument);
      for (const std::string& word : {std::string("\"model\""), std::string("element 33 "),
                                      std::string("\"b\""), "is " + std::to_string(bad)})
        EXPECT_NE(status.text().find(word), std::string::npos) << status.text();
      EXPECT_EQ(sender.bytes(), sent);
      values[1][33] = 0.5F;
      ASSERT_TRUE(undisturbed.send(values));
      ASSERT_TRUE(sender.send(values));
      EXPECT_EQ(sender.bytes(), undisturbed.bytes());
    }
  }
}

TEST(Compression, RefusesASumThatOverflows) {
  const Description table = table_of({{"t", Shape{100}}}, options_of(Compression::top_k(0.01F)));
  Sender sender(table);
  const float large = 0.75F * std::numeric_limits<float>::max();
  ASSERT_TRUE(sender.send({Floats(100, large)}));
  EXPECT_EQ(sender.read(0)[0], large);
  const Status status = sender.send({Floats(100, large)});
  ASSERT_EQ(status.code(), Code::bad_argument);
  EXPECT_NE(status.text().find("element 1 "), std::string::npos) << status.text();
  EXPECT_TRUE(sender.send({Floats(100, 0.0F)}));
}

// A push comes from another process: its content may be wrong, but it must not be written outside
// its place.
TEST(Compression, OfSpoiltPushesIsReadWithinItsPlace) {
  std::mt19937 random(static_cast<unsigned>(first_seed()));
  for (const Compression& compression : {Compression::int8(), Compression::top_k(0.1F)}) {
    const Description table = table_of({{"t", Shape{2000}}}, options_of(compression));
    Sender sender(table);
    for (int round = 0; round < 50; ++round) {
      std::ranges::generate(sender.bytes(), [&] { return static_cast<std::byte>(random()); });
      const std::size_t from = random() % 2000;
      (void)sender.read(0, from, 1 + random() % (2000 - from));  // a sanitizer sees the rest
    }
  }
}

std::string refusal(const std::vector<TensorSpec>& specs, const TableOptions& options) {
  try {
    (void)table_of(specs, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_argument);
    return error.what();
  }
  return "accepted";
}

TEST(Compression, IsRefusedInOneLineWhereItMakesNoSense) {
  const auto says = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  };
  const std::vector<TensorSpec> usual{{"t", Shape{1000}}};
  for (const float ratio : {0.0F, 1.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()})
    says(refusal(usual, options_of(Compression::top_k(ratio))), "above 0 and below 1");
  says(refusal(usual, options_of(Compression::top_k(0.6F))), "lower ratio");
  says(refusal(usual, options_of(Compression::top_k(0.3F), DType::bf16)), "lower ratio");
  says(refusal({{"t", Shape{3}}}, options_of(Compression::int8())), "so small a table");
  says(refusal({{"t", Shape{std::int64_t{1} << 33}}}, options_of(Compression::top_k(0.01F))),
       "more than 32 bits");
  EXPECT_EQ(refusal(usual, options_of(Compression::top_k(0.3F))), "accepted");
}

}  // namespace
}  // namespace weft::tests::compression
