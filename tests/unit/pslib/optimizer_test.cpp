// The arithmetic of one shard: its results, and that the bits don't depend on where a run is cut.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "pslib/optimizer/updater.hpp"
#include "tests/unit/pslib/reference.hpp"

namespace weft::pslib {
namespace {

using tests::Floats;
using tests::random_floats;
using tests::random_gradients;

constexpr int kSteps = 5;

std::vector<Source> sources(const std::vector<Floats>& gradients, std::size_t from = 0) {
  std::vector<Source> all;
  for (const Floats& gradient : gradients)
    all.push_back({reinterpret_cast<const std::byte*>(gradient.data() + from)});
  return all;
}

/// A table of one tensor on one shard.
class Alone {
 public:
  Alone(const TableOptions& options, std::size_t count, std::size_t workers)
      : run_{0, 0, static_cast<std::int64_t>(count)},
        updater_(options, 1, static_cast<std::int64_t>(count), workers) {}

  void step(Floats& parameters, const std::vector<Floats>& gradients) {
    const auto all = sources(gradients);
    updater_.begin(gradients.size());
    if (!updater_.due()) return updater_.keep(run_, all);
    if (updater_.measures()) updater_.measure(run_, parameters.data(), all);
    updater_.apply(run_, parameters.data(), parameters.data(), all);
  }

  const Updater& updater() const noexcept { return updater_; }

 private:
  Run run_;
  Updater updater_;
};

void follows_the_formula(const TableOptions& options, std::size_t workers, std::size_t count,
                         unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", workers " + std::to_string(workers) +
               ", elements " + std::to_string(count));
  std::mt19937 random(seed);
  Floats parameters = random_floats(count, random);
  tests::Reference reference(options, parameters);
  Alone alone(options, count, workers);
  for (int step = 0; step < kSteps; ++step) {
    const auto gradients = random_gradients(workers, count, random);
    alone.step(parameters, gradients);
    reference.step(gradients);
  }
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_NEAR(parameters[i], reference.parameters()[i], 4e-5) << "element " << i;
}

/// The elements in runs of random sizes and in random order; the sizes are multiples of cache lines
/// for rules that use norms.
std::vector<Run> random_cut(std::size_t count, bool in_lines, std::mt19937& random) {
  std::vector<Run> runs;
  for (std::size_t from = 0; from < count;) {
    std::size_t size = 1 + random() % (count - from);
    if (in_lines) size = std::min(count - from, (size + 15) / 16 * 16);
    runs.push_back({0, static_cast<std::int64_t>(from), static_cast<std::int64_t>(size)});
    from += size;
  }
  std::ranges::shuffle(runs, random);
  return runs;
}

void step_cut(Updater& updater, std::span<const Run> runs, const std::vector<Floats>& gradients,
              const float* before, float* after) {
  const auto at = [&](const Run& run) {
    return sources(gradients, static_cast<std::size_t>(run.offset));
  };
  if (updater.due() && updater.measures())
    for (const Run& run : runs) updater.measure(run, before, at(run));
  for (const Run& run : runs)
    if (updater.due())
      updater.apply(run, before, after, at(run));
    else
      updater.keep(run, at(run));
}

void same_bits_when_cut(const Optimizer& rule, unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::size_t count = 1 + random() % (seed % 4 == 0 ? 15'000 : 400);
  const std::size_t workers = 1 + random() % (seed % 5 == 0 ? 20 : 4);
  TableOptions options(rule);
  options.clip_norm = seed % 3 == 0 ? 0.5F : 0.0F;
  options.accumulate = seed % 7 == 0 ? 2 : 1;

  Floats whole = random_floats(count, random);
  // The cut table also has another offset in its cache lines, and alternates between two places.
  const std::size_t shift = random() % 16;
  Floats places[2] = {Floats(count + shift), Floats(count + shift)};
  std::ranges::copy(whole, places[0].data() + shift);

  Alone of_whole(options, count, workers);
  Updater of_cut(options, 1, static_cast<std::int64_t>(count), workers);
  for (int step = 0; step < kSteps; ++step) {
    const auto gradients = random_gradients(workers, count, random);
    of_whole.step(whole, gradients);
    of_cut.begin(workers);
    step_cut(of_cut, random_cut(count, of_cut.measures(), random), gradients,
             places[0].data() + shift, places[1].data() + shift);
    if (of_cut.due()) std::swap(places[0], places[1]);
  }
  ASSERT_EQ(std::memcmp(whole.data(), places[0].data() + shift, count * sizeof(float)), 0);
}

using Named = std::pair<const std::string, Optimizer>;

class EveryOptimizer : public testing::TestWithParam<Named> {
 protected:
  static const Optimizer& rule() { return GetParam().second; }
};

std::string name_of(const testing::TestParamInfo<Named>& info) { return info.param.first; }

INSTANTIATE_TEST_SUITE_P(Rules, EveryOptimizer, testing::ValuesIn(tests::every_rule()), name_of);

TEST_P(EveryOptimizer, FollowsItsFormulaForAnyNumberOfWorkers) {
  unsigned seed = 1;
  for (const std::size_t workers : {1, 3, 8, 9, 20})
    for (const std::size_t count : {1, 7, 33, 1000, 4096, 4097, 12'301})
      follows_the_formula(rule(), workers, count, seed++);
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
    follows_the_formula(rule(), 3, 1003, 7);
    follows_the_formula(rule(), 11, 5003, 8);
  }
}

TEST_P(EveryOptimizer, FollowsItsFormulaClippedAccumulatedAndScheduled) {
  TableOptions options(rule());
  options.clip_norm = 2.0F;
  follows_the_formula(options, 2, 500, 21);
  options.accumulate = 2;
  follows_the_formula(options, 3, 500, 22);
  if (rule().kind == Optimizer::Kind::ftrl) return;  // takes no schedule
  for (const auto kind :
       {Schedule::Kind::constant, Schedule::Kind::step, Schedule::Kind::exponential,
        Schedule::Kind::linear, Schedule::Kind::cosine}) {
    options.accumulate = 1;
    options.schedule = {.kind = kind, .warmup = 1, .period = 2, .gamma = 0.3F, .floor = 0.1F};
    follows_the_formula(options, 2, 500, 23);
  }
}

// A tensor's bits must not depend on its partition into shards, nor on whether the new parameters
// replace the old ones in place.
TEST_P(EveryOptimizer, GivesTheSameBitsWhereverATensorIsCut) {
  for (unsigned seed = 0; seed < 40; ++seed) same_bits_when_cut(rule(), seed);
}

TEST_P(EveryOptimizer, LeavesWhatLiesAroundTheRunAlone) {
  constexpr float kFence = 12345.0F;
  for (std::int64_t count = 1; count < 70; ++count) {
    Floats parameters(static_cast<std::size_t>(count) + 2, 1.0F);
    parameters.front() = parameters.back() = kFence;
    const std::vector<Floats> gradients(2, Floats(static_cast<std::size_t>(count), 1.0F));
    Updater updater(rule(), 1, count, 2);
    const pslib::Run run{0, 0, count};
    updater.begin(2);
    if (updater.measures()) updater.measure(run, parameters.data() + 1, sources(gradients));
    updater.apply(run, parameters.data() + 1, parameters.data() + 1, sources(gradients));
    ASSERT_EQ(parameters.front(), kFence);
    ASSERT_EQ(parameters.back(), kFence);
    for (std::size_t i = 1; i + 1 < parameters.size(); ++i)
      ASSERT_NE(parameters[i], 1.0F) << "element " << i;
  }
}

/// p -= lr sign(g), with the number of updates as its state.
class SignDescent : public Rule {
 public:
  std::string text() const override { return "sign"; }
  std::size_t states() const noexcept override { return 1; }
  void apply(const RuleStep& step, std::span<float> parameters, std::span<const float> gradient,
             std::array<std::span<float>, kMostStates> states) const noexcept override {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] -= std::copysign(step.learning_rate, gradient[i]);
      states[0][i] += 1.0F;
      if (states[0][i] != static_cast<float>(step.update) || !states[1].empty())
        parameters[i] = NAN;
    }
  }
};

TEST(UserRule, SeesEveryElementOfEveryUpdateOnce) {
  constexpr std::size_t kCount = 9001;
  std::mt19937 random(5);
  Floats parameters(kCount, 0.0F);
  Floats expected = parameters;
  Alone alone(Optimizer::with(std::make_shared<SignDescent>(), 0.5F), kCount, 2);
  for (int step = 0; step < 3; ++step) {
    const auto gradients = random_gradients(2, kCount, random);
    alone.step(parameters, gradients);
    for (std::size_t i = 0; i < kCount; ++i)
      expected[i] -= std::copysign(0.5F, gradients[0][i] + gradients[1][i]);
  }
  EXPECT_EQ(parameters, expected);
}

TEST(Gradients, AreAddedInTheListedOrder) {
  // 1e8 absorbs a 1 in f32: only the ones added after the large values have cancelled survive.
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
    Alone(Optimizer::sgd(1.0F), 5, workers).step(parameters, late);
    for (const float p : parameters) EXPECT_FLOAT_EQ(p, -static_cast<float>(ones) * scale);
    parameters.assign(5, 0.0F);
    Alone(Optimizer::sgd(1.0F), 5, workers).step(parameters, early);
    for (const float p : parameters) EXPECT_EQ(p, 0.0F);
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Clipping, SkipsAnUpdateWhoseNormIsNotFiniteWithEveryRule) {
  for (const auto& [name, rule] : tests::every_rule())
    for (const float wrong : {NAN, kInfinity, -kInfinity})
      for (const std::uint32_t accumulate : {1U, 2U}) {
        SCOPED_TRACE(name);
        TableOptions options(rule);
        options.clip_norm = 1.0F;
        options.accumulate = accumulate;
        const Floats gradient(40, 0.1F);
        Floats spoilt = gradient;
        spoilt[3] = wrong;
        Alone undisturbed(options, 40, 1);
        Alone skipping(options, 40, 1);
        Floats expected(40, 1.0F);
        Floats parameters(40, 1.0F);
        const auto update = [&](Alone& alone, Floats& values, const Floats& first) {
          alone.step(values, {first});
          for (std::uint32_t i = 1; i < accumulate; ++i) alone.step(values, {gradient});
        };
        update(undisturbed, expected, gradient);
        update(skipping, parameters, gradient);
        update(skipping, parameters, spoilt);
        EXPECT_EQ(parameters, expected) << "the spoilt one changed them";
        // The failed update has no effect, neither on states nor on the rule's counters.
        update(undisturbed, expected, gradient);
        update(skipping, parameters, gradient);
        EXPECT_EQ(parameters, expected);
        EXPECT_EQ(skipping.updater().skipped(), 1);
        EXPECT_EQ(skipping.updater().updates(), 2);
      }
}

TEST(Rules, LetAGradientThatIsNotFiniteSpoilItsOwnElementAlone) {
  for (const auto& [name, rule] : tests::every_rule()) {
    if (rule.kind == Optimizer::Kind::lars) continue;  // goes by a norm
    for (const float wrong : {NAN, kInfinity}) {
      SCOPED_TRACE(name);
      Alone undisturbed(rule, 40, 1);
      Alone spoilt(rule, 40, 1);
      Floats expected(40, 1.0F);
      Floats parameters(40, 1.0F);
      for (int step = 0; step < 3; ++step) {
        Floats gradient(40, 0.1F);
        undisturbed.step(expected, {gradient});
        if (step == 1) gradient[3] = wrong;
        spoilt.step(parameters, {gradient});
      }
      EXPECT_FALSE(std::isfinite(parameters[3]));
      parameters[3] = expected[3];
      EXPECT_EQ(parameters, expected);
    }
  }
}

}  // namespace
}  // namespace weft::pslib
