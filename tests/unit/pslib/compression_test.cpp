// The content of a compressed push and the residual it leaves, against a reference computed element
// by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/seeds.hpp"
#include "tests/unit/pslib/compression_sender.hpp"

namespace weft::tests::compression {
namespace {

constexpr std::size_t kQuantum = 256;

/// The content of a push and the residual of each tensor, computed as the header describes them.
class Reference {
 public:
  Reference(const Description& table) : table_(table) {
    for (const TensorSpec& spec : table.specs)
      residuals_.emplace_back(static_cast<std::size_t>(spec.shape.elements()));
  }

  std::vector<Floats> push(const std::vector<Floats>& gradients) {
    std::vector<Floats> sent;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      Floats& left = residuals_[i];
      for (std::size_t e = 0; e < left.size(); ++e) left[e] = gradients[i][e] + left[e];
      const Compression& compression = table_.options.compression;
      sent.push_back(compression.kind == Compression::Kind::int8
                         ? quantised(left)
                         : largest(left, compression.ratio));
      for (std::size_t e = 0; e < left.size(); ++e) left[e] -= sent.back()[e];
    }
    return sent;
  }
  double norm() const {
    double squares = 0;
    for (const Floats& residual : residuals_)
      for (const double value : residual) squares += value * value;
    return std::sqrt(squares);
  }

 private:
  static Floats quantised(const Floats& values) {
    Floats sent(values.size());
    for (std::size_t start = 0; start < values.size(); start += kQuantum) {
      const std::size_t end = std::min(values.size(), start + kQuantum);
      float most = 0;
      for (std::size_t e = start; e < end; ++e) most = std::max(most, std::abs(values[e]));
      const float scale = most / 127.0F;
      if (!std::isnormal(scale)) continue;
      const float inverse = 1.0F / scale;
      for (std::size_t e = start; e < end; ++e) {
        const float steps = values[e] * inverse;
        sent[e] = scale * std::nearbyint(std::clamp<float>(steps, -127.0F, 127.0F));
      }
    }
    return sent;
  }
  static Floats largest(const Floats& values, float ratio) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(),
                             [&](std::size_t e) { return std::abs(values[e]); });
    const auto wanted = std::lround(static_cast<double>(ratio) * static_cast<double>(order.size()));
    order.resize(static_cast<std::size_t>(std::max(1L, wanted)));
    Floats sent(values.size());
    for (const std::size_t e : order) sent[e] = values[e];
    return sent;
  }

  const Description& table_;
  std::vector<Floats> residuals_;
};

/// Kinds of gradients: smooth, few different values, mostly zeros, tiny, of every size.
Floats gradient(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-140, 100);
  const auto kind = random() % 5;
  Floats values(count);
  std::ranges::generate(values, [&] {
    switch (kind) {
      case 0:
        return normal(random);
      case 1:
        return static_cast<float>(static_cast<int>(random() % 5) - 2);
      case 2:
        return random() % 50 == 0 ? normal(random) : 0.0F;
      case 3:
        return std::ldexp(normal(random), -130);
      default:
        return std::ldexp(normal(random), exponent(random));
    }
  });
  return values;
}

std::vector<Floats> gradients(const Description& table, std::mt19937& random) {
  std::vector<Floats> all;
  for (const TensorSpec& spec : table.specs)
    all.push_back(gradient(static_cast<std::size_t>(spec.shape.elements()), random));
  return all;
}

Description random_table(std::mt19937& random, DType wire = DType::f32) {
  std::vector<TensorSpec> specs{
      {"large", Shape{static_cast<std::int64_t>(4000 + random() % 6000)}}};
  for (std::size_t i = random() % 3; i > 0; --i)
    specs.push_back(
        {"t" + std::to_string(i), Shape{static_cast<std::int64_t>(1 + random() % 900)}});
  const float ratio = static_cast<float>(1 + random() % 12) / 100.0F;
  return table_of(
      specs, options_of(random() % 2 == 0 ? Compression::int8() : Compression::top_k(ratio), wire));
}

TEST(Compression, SendsWhatTheFormulasSayAndKeepsTheRest) {
  const std::uint64_t first = first_seed();
  for (std::uint64_t seed = first; seed < first + seeds(100) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    const Description table = random_table(random);
    Reference reference(table);
    Sender sender(table);
    for (int step = 0; step < 5; ++step) {
      const auto pushed = gradients(table, random);
      const auto expected = reference.push(pushed);
      ASSERT_TRUE(sender.send(pushed));
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(sender.read(i), expected[i]) << "step " << step << ", tensor " << i;
      const double norm = reference.norm();
      if (std::isfinite(sender.statistics().residual_norm)) {
        EXPECT_NEAR(sender.statistics().residual_norm, norm, 1e-4 * norm + 1e-18);
      }
    }
    EXPECT_EQ(sender.statistics().bytes_spared,
              5 * (table.pushes.bytes_before() - table.pushes.bytes()));
  }
}

TEST(Compression, IsReadAlikeWhereverTensorsAreCut) {
  const std::uint64_t first = first_seed();
  for (std::uint64_t seed = first; seed < first + seeds(100) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    const Description table = random_table(random);
    Sender sender(table);
    ASSERT_TRUE(sender.send(gradients(table, random)));
    const Floats whole = sender.read(0);
    for (int cut = 0; cut < 20; ++cut) {
      const std::size_t from = random() % whole.size();
      const std::size_t count = 1 + random() % (whole.size() - from);
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(from);
      ASSERT_EQ(sender.read(0, from, count),
                Floats(begin, begin + static_cast<std::ptrdiff_t>(count)))
          << "elements from " << from << ", " << count;
    }
  }
}

TEST(Compression, OfSixteenBitsStartsFromTheValuesThatTheyStandFor) {
  std::mt19937 random(5);
  const Description narrow = random_table(random, DType::bf16);
  const Description wide = table_of(narrow.specs, options_of(narrow.options.compression));
  Sender sixteen(narrow);
  Sender full(wide);
  for (int step = 0; step < 3; ++step) {
    auto pushed = gradients(wide, random);
    for (Floats& tensor : pushed)
      for (float& value : tensor) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        bits &= 0xFFFF0000U;
        std::memcpy(&value, &bits, sizeof bits);
      }
    ASSERT_TRUE(sixteen.send(pushed));
    ASSERT_TRUE(full.send(pushed));
    for (std::size_t i = 0; i < pushed.size(); ++i) EXPECT_EQ(sixteen.read(i), full.read(i));
  }
}

// Sums of small integers are exact in f32, so no bit may be missing.
TEST(Compression, LosesNothingOfWhatTopKHoldsBack) {
  constexpr std::size_t kCount = 5000;
  const Description table = table_of({{"t", Shape{kCount}}}, options_of(Compression::top_k(0.02F)));
  Sender sender(table);
  std::mt19937 random(static_cast<unsigned>(first_seed()));
  Floats pushed_sum(kCount);
  Floats read_sum(kCount);
  const auto push = [&](const Floats& values) {
    ASSERT_TRUE(sender.send({values}));
    const Floats read = sender.read(0);
    EXPECT_LE(std::ranges::count_if(read, [](float v) { return v != 0.0F; }), 100);
    for (std::size_t e = 0; e < kCount; ++e) {
      pushed_sum[e] += values[e];
      read_sum[e] += read[e];
    }
  };
  for (int step = 0; step < 30; ++step) {
    Floats values(kCount);
    std::ranges::generate(values, [&] { return static_cast<float>(random() % 9) - 4.0F; });
    push(values);
  }
  EXPECT_GT(sender.statistics().residual_norm, 0.0);
  for (int step = 0; step < 50; ++step) push(Floats(kCount));
  EXPECT_EQ(sender.statistics().residual_norm, 0.0);
  EXPECT_EQ(read_sum, pushed_sum);
}

TEST(Compression, HoldsBackAtMostHalfAStepOfInt8) {
  constexpr std::size_t kCount = 1000;
  const Description table = table_of({{"t", Shape{kCount}}}, options_of(Compression::int8()));
  Sender sender(table);
  std::mt19937 random(static_cast<unsigned>(first_seed()));
  std::vector<double> missing(kCount);
  for (int step = 0; step < 50; ++step) {
    const Floats values = random_floats(kCount, random);
    ASSERT_TRUE(sender.send({values}));
    const Floats read = sender.read(0);
    for (std::size_t e = 0; e < kCount; ++e)
      missing[e] += static_cast<double>(values[e]) - static_cast<double>(read[e]);
  }
  for (const double left : missing) EXPECT_LE(std::abs(left), 6.0 / 254);
}

}  // namespace
}  // namespace weft::tests::compression
