#include "pslib/optimizer.hpp"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace weft::pslib {
namespace {

constexpr int kSteps = 5;

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats random_floats(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Floats values(count);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

/// A step's gradients, worker by worker.
std::vector<Floats> random_gradients(std::size_t workers, std::size_t count, std::mt19937& random) {
  std::vector<Floats> gradients(workers);
  for (Floats& gradient : gradients) gradient = random_floats(count, random);
  return gradients;
}

std::vector<const float*> pointers(const std::vector<Floats>& gradients, std::size_t from = 0) {
  std::vector<const float*> sources;
  for (const Floats& gradient : gradients) sources.push_back(gradient.data() + from);
  return sources;
}

/// The rules as the papers write them, in double precision.
class Reference {
 public:
  Reference(const Optimizer& rule, const Floats& parameters)
      : rule_(rule),
        p_(parameters.begin(), parameters.end()),
        m_(parameters.size(), 0.0),
        v_(parameters.size(), 0.0) {}

  void step(const std::vector<Floats>& gradients) {
    ++t_;
    for (std::size_t i = 0; i < p_.size(); ++i) {
      double g = 0.0;
      for (const Floats& gradient : gradients) g += gradient[i];
      update(i, g / static_cast<double>(gradients.size()));
    }
  }
  const Doubles& parameters() const { return p_; }

 private:
  void update(std::size_t i, double g) {
    const double rate = rule_.learning_rate;
    if (rule_.kind == Optimizer::Kind::sgd) {
      p_[i] -= rate * g;
    } else if (rule_.kind == Optimizer::Kind::momentum) {
      v_[i] = rule_.momentum * v_[i] + g;
      p_[i] -= rate * v_[i];
    } else {
      const double b1 = rule_.beta1;
      const double b2 = rule_.beta2;
      m_[i] = b1 * m_[i] + (1 - b1) * g;
      v_[i] = b2 * v_[i] + (1 - b2) * g * g;
      const double m_hat = m_[i] / (1 - std::pow(b1, t_));
      const double v_hat = v_[i] / (1 - std::pow(b2, t_));
      p_[i] -= rate * m_hat / (std::sqrt(v_hat) + rule_.epsilon);
    }
  }

  Optimizer rule_;
  Doubles p_, m_, v_;
  int t_ = 0;
};

class EveryOptimizer : public testing::TestWithParam<Optimizer> {};

INSTANTIATE_TEST_SUITE_P(Rules, EveryOptimizer,
                         testing::Values(Optimizer::sgd(0.1F), Optimizer::with_momentum(0.1F, 0.9F),
                                         Optimizer::adam(0.01F)),
                         [](const auto& info) {
                           const std::string words = text(info.param);
                           return words.substr(0, words.find('('));
                         });

void follows_the_formula(const Optimizer& rule, std::size_t workers, std::size_t count,
                         unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", workers " + std::to_string(workers) +
               ", elements " + std::to_string(count));
  std::mt19937 random(seed);
  Floats parameters = random_floats(count, random);
  Reference reference(rule, parameters);
  Updater updater(rule, static_cast<std::int64_t>(count));
  for (int step = 0; step < kSteps; ++step) {
    const auto gradients = random_gradients(workers, count, random);
    updater.begin_step();
    updater.apply(parameters.data(), 0, pointers(gradients), static_cast<std::int64_t>(count));
    reference.step(gradients);
  }
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_NEAR(parameters[i], reference.parameters()[i], 2e-5) << "element " << i;
}

TEST_P(EveryOptimizer, FollowsItsFormulaForAnyNumberOfWorkers) {
  unsigned seed = 1;
  for (const std::size_t workers : {1, 2, 3, 8, 9, 16, 20})
    for (const std::size_t count : {1, 7, 16, 33, 1000, 4096, 4097, 12'301})
      follows_the_formula(GetParam(), workers, count, seed++);
}

TEST_P(EveryOptimizer, FollowsItsFormulaOnEveryVectorUnit) {
  struct Restore {
    ~Restore() {
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
    }
  } restore;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    follows_the_formula(GetParam(), 3, 1003, 7);
    follows_the_formula(GetParam(), 11, 5003, 8);
  }
}

// A tensor's bits must not depend on how it is spread over shards.
TEST_P(EveryOptimizer, GivesTheSameBitsWhereverATensorIsCut) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    const std::size_t count = 1 + below(seed % 4 == 0 ? 15'000 : 400);
    const std::size_t workers = 1 + below(seed % 5 == 0 ? 20 : 4);
    Floats whole = random_floats(count, random);
    // The cut one lies elsewhere in its cache lines as well.
    const std::size_t shift = below(16);
    Floats memory(count + shift);
    float* const cut = memory.data() + shift;
    std::ranges::copy(whole, cut);

    const auto size = static_cast<std::int64_t>(count);
    Updater of_whole(GetParam(), size);
    Updater of_cut(GetParam(), size);
    for (int step = 0; step < kSteps; ++step) {
      const auto gradients = random_gradients(workers, count, random);
      of_whole.begin_step();
      of_whole.apply(whole.data(), 0, pointers(gradients), size);
      of_cut.begin_step();
      for (std::size_t from = 0; from < count;) {
        const std::size_t run = 1 + below(count - from);
        of_cut.apply(cut + from, static_cast<std::int64_t>(from), pointers(gradients, from),
                     static_cast<std::int64_t>(run));
        from += run;
      }
    }
    ASSERT_EQ(std::memcmp(whole.data(), cut, count * sizeof(float)), 0);
  }
}

TEST_P(EveryOptimizer, LeavesWhatLiesAroundTheRunAlone) {
  constexpr float kFence = 12345.0F;
  for (std::size_t count = 1; count < 70; ++count) {
    Floats parameters(count + 2, 1.0F);
    parameters.front() = parameters.back() = kFence;
    const std::vector<Floats> gradients(2, Floats(count, 1.0F));
    Updater updater(GetParam(), static_cast<std::int64_t>(count));
    updater.begin_step();
    updater.apply(parameters.data() + 1, 0, pointers(gradients), static_cast<std::int64_t>(count));
    ASSERT_EQ(parameters.front(), kFence);
    ASSERT_EQ(parameters.back(), kFence);
    for (std::size_t i = 1; i <= count; ++i) ASSERT_NE(parameters[i], 1.0F) << "element " << i;
  }
}

TEST(Gradients, AreAddedInTheListedOrder) {
  // 1e8 swallows a 1: only what comes after the large values have cancelled survives.
  for (const std::size_t ones : {1, 7, 30}) {
    const std::size_t workers = ones + 2;
    std::vector<Floats> late(workers, Floats(5, 1.0F));
    late[0].assign(5, 1e8F);
    late[1].assign(5, -1e8F);
    std::vector<Floats> early(workers, Floats(5, 1.0F));
    early[0].assign(5, 1e8F);
    early[workers - 1].assign(5, -1e8F);

    const auto scale = 1.0F / static_cast<float>(workers);
    Floats parameters(5, 0.0F);
    kernels::sgd(parameters.data(), pointers(late), 5, 1.0F);
    for (const float p : parameters) EXPECT_FLOAT_EQ(p, -static_cast<float>(ones) * scale);
    parameters.assign(5, 0.0F);
    kernels::sgd(parameters.data(), pointers(early), 5, 1.0F);
    for (const float p : parameters) EXPECT_EQ(p, 0.0F);
  }
}

TEST(OptimizerCheck, NamesTheConstantThatMakesNoSense) {
  const auto refusal = [](const Optimizer& optimizer) -> std::string {
    try {
      check(optimizer);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_argument);
      return error.what();
    }
    return "";
  };
  const auto names = [&](const Optimizer& optimizer, const char* constant) {
    return refusal(optimizer).find(constant) != std::string::npos;
  };
  EXPECT_EQ(refusal(Optimizer::sgd(0.1F)), "");
  EXPECT_EQ(refusal(Optimizer::adam(0.1F)), "");
  EXPECT_TRUE(names(Optimizer::sgd(NAN), "learning_rate"));
  EXPECT_TRUE(names(Optimizer::with_momentum(0.1F, 1.0F), "momentum"));
  EXPECT_TRUE(names(Optimizer::adam(0.1F, -0.1F), "beta1"));
  EXPECT_TRUE(names(Optimizer::adam(0.1F, 0.9F, 1.0F), "beta2"));
  EXPECT_TRUE(names(Optimizer::adam(0.1F, 0.9F, 0.999F, 0.0F), "epsilon"));
}

}  // namespace
}  // namespace weft::pslib
