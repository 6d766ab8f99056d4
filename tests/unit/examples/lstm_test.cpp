#include "lstm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "lstm_kernel.hpp"
#include "lstm_reference.hpp"
#include "random.hpp"

namespace {

using charlm::Lstm;
using charlm::LstmSizes;
using charlm::LstmTensors;
namespace reference = charlm::reference;

constexpr LstmSizes kSizes{.vocabulary = 7, .embed = 5, .hidden = 6};
constexpr int kSequences = 3;
constexpr int kLength = 4;

// Parameters or gradients in single precision, each tensor `shift` floats after a 64-byte boundary.
struct Floats {
  static constexpr std::size_t kLine = 64 / sizeof(float);
  struct alignas(64) Line {
    std::array<float, kLine> floats;
  };
  std::vector<std::vector<Line>> lines;
  std::vector<std::span<float>> tensors;

  explicit Floats(const reference::Tensors& from, std::size_t shift = 1) {
    for (const auto& array : from.arrays) {
      lines.emplace_back((array.size() + shift) / kLine + 1);
      tensors.emplace_back(lines.back().front().floats.data() + shift, array.size());
      std::ranges::copy(array, tensors.back().begin());
    }
  }
  LstmTensors<float> spans() const {
    return {tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5]};
  }
  std::vector<float> flat() const {
    std::vector<float> out;
    for (const auto& tensor : tensors) out.insert(out.end(), tensor.begin(), tensor.end());
    return out;
  }
};

reference::Tensors random_parameters(std::uint64_t seed, const LstmSizes& sizes = kSizes) {
  reference::Tensors out(sizes);
  charlm::Random random(seed);
  // Rounded to float, so that both sides compute with the same numbers.
  for (auto& array : out.arrays)
    for (double& value : array) value = static_cast<float>(1.6 * random.unit() - 0.8);
  return out;
}

std::vector<std::int32_t> random_tokens(std::uint64_t seed, int count) {
  charlm::Random random(seed);
  std::vector<std::int32_t> out;
  for (int i = 0; i < count; ++i)
    out.push_back(static_cast<std::int32_t>(random.unit() * kSizes.vocabulary));
  return out;
}

struct Build {
  std::string name;
  std::unique_ptr<Lstm> (*make)(const LstmSizes&, int, int);
  friend void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }
};

class LstmBuild : public testing::TestWithParam<Build> {
 protected:
  void SetUp() override {
    const bool can_run = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    if (GetParam().name == "avx2" && !can_run)
      GTEST_SKIP() << "this processor has no AVX2 with FMA";
  }
};

TEST_P(LstmBuild, loss_is_that_of_the_reference) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto parameters = random_parameters(seed);
    const auto inputs = random_tokens(seed + 100, kSequences * kLength);
    const auto targets = random_tokens(seed + 200, kSequences * kLength);
    Floats values(parameters), gradients(parameters);
    const auto lstm = GetParam().make(kSizes, kSequences, kLength);
    EXPECT_NEAR(lstm->train(values.spans(), gradients.spans(), inputs, targets),
                reference::loss(kSizes, parameters, kSequences, kLength, inputs, targets), 1e-5)
        << "seed " << seed;
  }
}

TEST_P(LstmBuild, gradients_are_the_slopes_of_the_reference_loss) {
  constexpr double kStep = 1e-5;
  constexpr std::uint64_t kSeed = 11;
  auto parameters = random_parameters(kSeed);
  const auto inputs = random_tokens(kSeed + 100, kSequences * kLength);
  const auto targets = random_tokens(kSeed + 200, kSequences * kLength);
  Floats values(parameters), gradients(parameters);
  GetParam()
      .make(kSizes, kSequences, kLength)
      ->train(values.spans(), gradients.spans(), inputs, targets);
  const auto loss = [&] {
    return reference::loss(kSizes, parameters, kSequences, kLength, inputs, targets);
  };
  for (std::size_t a = 0; a < parameters.arrays.size(); ++a) {
    for (std::size_t i = 0; i < parameters.arrays[a].size(); ++i) {
      double& value = parameters.arrays[a][i];
      const double kept = value;
      value = kept + kStep;
      const double above = loss();
      value = kept - kStep;
      const double below = loss();
      value = kept;
      ASSERT_NEAR(gradients.tensors[a][i], (above - below) / (2 * kStep), 2e-6)
          << "seed " << kSeed << ", tensor " << a << ", element " << i;
    }
  }
}

TEST_P(LstmBuild, equal_parts_average_to_the_gradient_of_the_whole) {
  constexpr int kParts = 3;
  const auto parameters = random_parameters(5);
  const auto inputs = random_tokens(6, kSequences * kLength);
  const auto targets = random_tokens(7, kSequences * kLength);
  Floats values(parameters), whole(parameters);
  const double whole_loss = GetParam()
                                .make(kSizes, kSequences, kLength)
                                ->train(values.spans(), whole.spans(), inputs, targets);
  const reference::Tensors zero(kSizes);
  Floats mean(zero);
  double mean_loss = 0.0;
  for (int part = 0; part < kParts; ++part) {
    std::vector<std::int32_t> in, out;
    for (int t = 0; t < kLength; ++t) {
      in.push_back(inputs[static_cast<std::size_t>(t * kSequences + part)]);
      out.push_back(targets[static_cast<std::size_t>(t * kSequences + part)]);
    }
    Floats own(parameters);
    mean_loss +=
        GetParam().make(kSizes, 1, kLength)->train(values.spans(), own.spans(), in, out) / kParts;
    for (std::size_t a = 0; a < own.tensors.size(); ++a)
      for (std::size_t i = 0; i < own.tensors[a].size(); ++i)
        mean.tensors[a][i] += own.tensors[a][i] / kParts;
  }
  EXPECT_NEAR(mean_loss, whole_loss, 1e-6);
  for (std::size_t a = 0; a < mean.tensors.size(); ++a)
    for (std::size_t i = 0; i < mean.tensors[a].size(); ++i)
      ASSERT_NEAR(mean.tensors[a][i], whole.tensors[a][i], 1e-6);
}

TEST_P(LstmBuild, a_second_batch_owes_nothing_to_the_first) {
  const auto parameters = random_parameters(3);
  const auto inputs = random_tokens(4, kSequences * kLength);
  const auto others = random_tokens(5, kSequences * kLength);
  Floats values(parameters), fresh(parameters), used(parameters);
  const auto lstm = GetParam().make(kSizes, kSequences, kLength);
  const double first = lstm->train(values.spans(), fresh.spans(), inputs, others);
  lstm->train(values.spans(), used.spans(), others, inputs);
  EXPECT_EQ(lstm->train(values.spans(), used.spans(), inputs, others), first);
  EXPECT_EQ(fresh.flat(), used.flat());
}

// Compares bits, not just values: two runs of a job have their tensors at different addresses.
TEST_P(LstmBuild, results_do_not_depend_on_where_the_tensors_lie) {
  constexpr LstmSizes kLarger{.vocabulary = 31, .embed = 9, .hidden = 21};
  const auto parameters = random_parameters(8, kLarger);
  const auto inputs = random_tokens(9, kSequences * kLength);
  const auto targets = random_tokens(10, kSequences * kLength);
  std::vector<float> expected;
  for (std::size_t shift = 0; shift < Floats::kLine; ++shift) {
    Floats values(parameters, shift), gradients(parameters, Floats::kLine - 1 - shift);
    GetParam()
        .make(kLarger, kSequences, kLength)
        ->train(values.spans(), gradients.spans(), inputs, targets);
    if (shift == 0) expected = gradients.flat();
    ASSERT_EQ(gradients.flat(), expected) << "shift " << shift;
  }
}

TEST_P(LstmBuild, advancing_by_single_characters_gives_the_reference_logits) {
  const auto parameters = random_parameters(21);
  const auto tokens = random_tokens(22, 9);
  Floats values(parameters);
  const auto lstm = GetParam().make(kSizes, 1, 1);
  std::span<const float> logits;
  for (const std::int32_t token : tokens) logits = lstm->advance(values.spans(), token);
  const auto expected = reference::logits(kSizes, parameters, tokens);
  ASSERT_EQ(logits.size(), expected.size());
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-5);
}

TEST_P(LstmBuild, descent_learns_a_repeating_text) {
  std::vector<std::int32_t> inputs, targets;
  for (int t = 0; t < kLength; ++t) {
    for (int s = 0; s < kSequences; ++s) {
      inputs.push_back((t + s) % kSizes.vocabulary);
      targets.push_back((t + s + 1) % kSizes.vocabulary);
    }
  }
  const reference::Tensors zero(kSizes);
  Floats values(zero), gradients(zero);
  charlm::initialize(kSizes, 1, values.spans());
  const auto lstm = GetParam().make(kSizes, kSequences, kLength);
  double loss = 0.0;
  for (int step = 0; step < 300; ++step) {
    loss = lstm->train(values.spans(), gradients.spans(), inputs, targets);
    for (std::size_t a = 0; a < values.tensors.size(); ++a)
      for (std::size_t i = 0; i < values.tensors[a].size(); ++i)
        values.tensors[a][i] -= 1.0F * gradients.tensors[a][i];
  }
  EXPECT_LT(loss, 0.05 * std::log(kSizes.vocabulary));
}

const Build kBuilds[] = {{"baseline", charlm::baseline::make_lstm},
#ifdef CHARLM_HAS_AVX2
                         {"avx2", charlm::avx2::make_lstm},
#endif
                         {"chosen", charlm::make_lstm}};
INSTANTIATE_TEST_SUITE_P(Builds, LstmBuild, testing::ValuesIn(kBuilds),
                         [](const auto& info) { return info.param.name; });

TEST(Initialize, is_a_function_of_the_seed) {
  const reference::Tensors zero(kSizes);
  Floats a(zero), b(zero), c(zero);
  charlm::initialize(kSizes, 1, a.spans());
  charlm::initialize(kSizes, 1, b.spans());
  charlm::initialize(kSizes, 2, c.spans());
  EXPECT_EQ(a.flat(), b.flat());
  EXPECT_NE(a.flat(), c.flat());
}

}  // namespace
