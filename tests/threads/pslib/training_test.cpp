// Bulk-synchronous training: the same model for every number of ranks, and the same bits every
// time.
#include <gtest/gtest.h>

#include <cstring>

#include "pslib/optimizer/rules.hpp"
#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;

constexpr std::size_t kSplitAll = 1;
constexpr std::size_t kSplitNone = 1 << 20;

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Training : public testing::TestWithParam<Optimizer> {};

INSTANTIATE_TEST_SUITE_P(Rules, Training,
                         testing::Values(Optimizer::sgd(0.1F), Optimizer::with_momentum(0.05F),
                                         Optimizer::adam(0.02F)),
                         [](const auto& info) {
                           const std::string words = pslib::text(info.param);
                           return words.substr(0, words.find('('));
                         });

TEST_P(Training, OnManyRanksEqualsOneRankOnTheSameBatchToRounding) {
  const Floats alone = train({.ranks = 1, .options = {}, .optimizer = GetParam()}).front();
  const Floats start = train({.ranks = 1, .options = {}, .optimizer = GetParam(), .steps = 0})[0];
  ASSERT_FALSE(same_bits(alone, start)) << "a model that does not learn would equal anything";
  for (const int ranks : {2, 3, 4, 5, 8}) {
    for (const std::size_t split : {kSplitAll, kSplitNone}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, split_bytes " + std::to_string(split));
      Job job{.ranks = ranks, .options = {}, .optimizer = GetParam()};
      job.options.split_bytes = split;
      const auto outcome = train(job);
      for (const Floats& of_rank : outcome)
        EXPECT_TRUE(same_bits(of_rank, outcome.front())) << "ranks must hold one model";
      ASSERT_EQ(outcome.front().size(), alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i)
        EXPECT_NEAR(outcome.front()[i], alone[i], 2e-4F) << "parameter " << i;
    }
  }
}

TEST_P(Training, GivesTheSameBitsInEveryRun) {
  for (const int ranks : {2, 5}) {
    const Job job{.ranks = ranks, .options = {}, .optimizer = GetParam()};
    const Floats first = train(job).front();
    for (int again = 0; again < 3; ++again) EXPECT_TRUE(same_bits(train(job).front(), first));
  }
}

TEST_P(Training, GivesTheSameBitsHoweverTheTensorsAreSpread) {
  Job job{.ranks = 4, .options = {}, .optimizer = GetParam()};
  job.options.split_bytes = kSplitNone;
  const Floats whole = train(job).front();
  job.options.split_bytes = kSplitAll;
  EXPECT_TRUE(same_bits(train(job).front(), whole));
  job.options.servers = {2};
  EXPECT_TRUE(same_bits(train(job).front(), whole));
}

TEST(TrainingStart, TakesTheFirstWorkersParameters) {
  Job job{.ranks = 4, .options = {}, .optimizer = Optimizer::sgd(0.1F), .steps = 0};
  const Floats of_rank_0 = train(job).front();
  job.options.workers = {2, 0, 3, 1};  // train() fills the first worker's with the same values
  for (const Floats& of_rank : train(job)) EXPECT_TRUE(same_bits(of_rank, of_rank_0));
}

TEST(TrainingStart, LeavesGradientsAtZero) {
  run_on(2, [](World& world) {
    pslib::ParameterServer server(world);
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
    fill_parameters(table, world.rank());
    table.initialize().or_throw();
    const Floats start = parameters(table);
    table.push_pull().or_throw();
    EXPECT_EQ(parameters(table), start);
    EXPECT_EQ(table.version(), 1U);
    world.leave().or_throw();
  });
}

TEST(TrainingShapes, TakesManyTensorsAndTensorsSmallerThanTheRanks) {
  constexpr int kTensors = 400;
  constexpr int kSteps = 3;
  run_on(5, [](World& world) {
    std::vector<pslib::TensorSpec> specs;
    for (int i = 0; i < kTensors; ++i)
      specs.push_back({"t" + std::to_string(i), Shape{1 + i % 3, 1 + i % 41}});
    specs.push_back({"large", Shape{300, 301}});
    specs.push_back({"scalar", Shape{}});
    pslib::ParameterServer server(world);
    auto table = server.table("model", specs, Optimizer::sgd(1.0F));
    table.initialize().or_throw();
    for (int step = 0; step < kSteps; ++step) {
      for (std::size_t i = 0; i < specs.size(); ++i)
        std::ranges::fill(table.gradient(specs[i].name).as<float>(),
                          static_cast<float>(i) + static_cast<float>(world.rank()));
      table.push_pull().or_throw();
    }
    // The mean over ranks 0 to 4 adds 2 to every tensor's own number.
    for (std::size_t i = 0; i < specs.size(); ++i)
      for (const float p : table.parameter(specs[i].name).as<float>())
        ASSERT_FLOAT_EQ(p, -static_cast<float>(kSteps) * (static_cast<float>(i) + 2.0F))
            << specs[i].name;
    world.leave().or_throw();
  });
}

TEST(TrainingShapes, TakesSeveralTablesAndServersInOneWorld) {
  run_on(3, [](World& world) {
    pslib::ParameterServer one(world, {}, "one");
    pslib::ParameterServer other(world, {}, "other");
    auto a = one.table("a", {{"t", Shape{40}}}, Optimizer::sgd(1.0F));
    auto b = one.table("b", {{"t", Shape{50}}}, Optimizer::sgd(2.0F));
    auto c = other.table("a", {{"t", Shape{60}}}, Optimizer::sgd(3.0F));
    float rate = 1.0F;
    for (pslib::Table* table : {&a, &b, &c}) {
      table->initialize().or_throw();
      std::ranges::fill(table->gradient("t").as<float>(), 1.0F);
      table->push_pull().or_throw();
      for (const float p : table->parameter("t").as<float>()) EXPECT_FLOAT_EQ(p, -rate);
      rate += 1.0F;
    }
    world.leave().or_throw();
  });
}

// The table's slots are synchronous: the protocol alone keeps writers from overtaking readers.
TEST(TrainingFlow, IsNoOverrunWhenThePromiseIsChecked) {
  Job job{.ranks = 4, .options = {}, .optimizer = Optimizer::adam(0.02F)};
  const Floats unchecked = train(job).front();
  job.config = settings().with(Setting::check, "flow");
  EXPECT_TRUE(same_bits(train(job).front(), unchecked));
}

}  // namespace
}  // namespace weft::tests
