// Invalid options are refused by name; valid ones can be read back.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "pslib/optimizer/rules.hpp"
#include "tests/support/errors.hpp"

namespace weft::pslib {
namespace {

std::string refusal(const TableOptions& options) {
  return weft::tests::refusal_of(Code::bad_argument, [&] { check(options); });
}

void expect_named(const TableOptions& options, const std::string& constant) {
  EXPECT_NE(refusal(options).find(constant), std::string::npos)
      << constant << ": " << refusal(options);
}

TEST(OptimizerCheck, NamesTheConstantThatMakesNoSense) {
  EXPECT_EQ(refusal(Optimizer::sgd(0.1F)), "(accepted)");
  EXPECT_EQ(refusal(Optimizer::adam(0.1F)), "(accepted)");
  EXPECT_EQ(refusal(Optimizer::lars(0.1F, 0.0F)), "(accepted)");
  expect_named(Optimizer::sgd(NAN), "learning_rate is nan");
  expect_named(Optimizer::ftrl(0.0F), "learning_rate is 0");
  expect_named(Optimizer::with_momentum(0.1F, 1.0F), "momentum is 1");
  expect_named(Optimizer::nesterov(0.1F, -0.5F), "momentum is -0.5");
  expect_named(Optimizer::adagrad(0.1F, 0.0F), "epsilon is 0");
  expect_named(Optimizer::rmsprop(0.1F, 1.5F), "rho is 1.5");
  expect_named(Optimizer::adam(0.1F, -0.1F), "beta1");
  expect_named(Optimizer::adam(0.1F, 0.9F, 1.0F), "beta2");
  expect_named(Optimizer::adam(0.1F, 0.9F, 0.999F, 0.0F), "epsilon");
  expect_named(Optimizer::adamw(0.1F, -1.0F), "weight_decay");
  expect_named(Optimizer::ftrl(0.1F, -1.0F), "l1");
  expect_named(Optimizer::lars(0.1F, 0.0F, 0.9F, 0.0F), "trust");
  expect_named(Optimizer::with(nullptr, 0.1F), "rule");
  Optimizer unknown;
  unknown.kind = static_cast<Optimizer::Kind>(99);
  expect_named(unknown, "kind is 99");
}

TEST(OptimizerCheck, NamesTheOptionThatMakesNoSense) {
  const auto with = [](const std::function<void(TableOptions&)>& change) {
    TableOptions options(Optimizer::ftrl(0.1F));
    change(options);
    return options;
  };
  expect_named(with([](auto& o) { o.clip_norm = -1.0F; }), "clip_norm is -1");
  expect_named(with([](auto& o) { o.accumulate = 0; }), "accumulate is 0");
  expect_named(with([](auto& o) { o.wire = DType::i32; }), "wire is i32");
  expect_named(with([](auto& o) { o.schedule.period = 0; }), "schedule.period is 0");
  expect_named(with([](auto& o) { o.schedule.kind = static_cast<Schedule::Kind>(77); }),
               "schedule.kind is 77");
  expect_named(with([](auto& o) { o.schedule.gamma = 0.0F; }), "schedule.gamma is 0");
  expect_named(with([](auto& o) { o.schedule.floor = -1.0F; }), "schedule.floor is -1");
  expect_named(with([](auto& o) { o.schedule.warmup = 3; }), "ftrl");
  EXPECT_EQ(refusal(with([](auto& o) { o.wire = DType::bf16; })), "(accepted)");
}

TEST(OptimizerText, SaysWhatIsNotAtItsDefault) {
  EXPECT_EQ(text(Optimizer::sgd(0.5F)), "sgd(learning_rate 0.5)");
  EXPECT_EQ(text(Optimizer::adamw(0.5F, 0.25F)),
            "adamw(learning_rate 0.5, beta1 0.9, beta2 0.999, epsilon 1e-08, weight_decay 0.25)");
  TableOptions options(Optimizer::sgd(0.5F));
  EXPECT_EQ(text(options), "sgd(learning_rate 0.5)\n");
  options.schedule = {.kind = Schedule::Kind::cosine, .warmup = 5, .period = 100};
  options.clip_norm = 1.0F;
  options.accumulate = 4;
  options.wire = DType::bf16;
  EXPECT_EQ(text(options),
            "sgd(learning_rate 0.5)\n"
            "schedule cosine (warmup 5, period 100, gamma 0.1, floor 0)\n"
            "clip_norm 1\naccumulate 4\nwire bf16\n");
}

TEST(Schedules, HaveAFactorForTheUpdateBeforeTheFirst) {
  for (const auto kind :
       {Schedule::Kind::constant, Schedule::Kind::step, Schedule::Kind::exponential,
        Schedule::Kind::linear, Schedule::Kind::cosine})
    EXPECT_EQ((Schedule{.kind = kind, .period = 10}).factor(0), 1.0) << static_cast<int>(kind);
}

TEST(Schedules, WarmUpAndThenTakeTheirShape) {
  Schedule schedule{.kind = Schedule::Kind::step, .warmup = 4, .period = 10, .gamma = 0.5F};
  EXPECT_DOUBLE_EQ(schedule.factor(1), 0.25);
  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.25) << "0 stands for the first";
  EXPECT_DOUBLE_EQ(schedule.factor(4), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(14), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(15), 0.5);
  EXPECT_DOUBLE_EQ(schedule.factor(25), 0.25);
  schedule.kind = Schedule::Kind::exponential;
  EXPECT_DOUBLE_EQ(schedule.factor(5), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(15), 0.5);
  schedule.floor = 0.2F;
  for (const auto kind : {Schedule::Kind::linear, Schedule::Kind::cosine}) {
    schedule.kind = kind;
    EXPECT_NEAR(schedule.factor(5), 1.0, 1e-7);
    EXPECT_NEAR(schedule.factor(10), 0.6, 1e-7) << "half way";
    EXPECT_NEAR(schedule.factor(15), 0.2, 1e-7);
    EXPECT_NEAR(schedule.factor(1000), 0.2, 1e-7);
  }
}

}  // namespace
}  // namespace weft::pslib
