// The guide's exact words on updates, schedules and late gradients.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "tests/guide/serial_rule.hpp"
#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using pslib::Optimizer;
using pslib::Schedule;
using pslib::Table;
using pslib::TableOptions;

constexpr int kWorkers = 3;
constexpr std::int64_t kElements = 16;  // a norm's squares are added in one tree

bool has_fused_multiply_add() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("avx2") != 0;
#else
  return true;
#endif
}

std::map<std::string, Optimizer> rules() {
  std::map<std::string, Optimizer> all{
      {"sgd", Optimizer::sgd(0.1F)},
      {"momentum", Optimizer::with_momentum(0.1F)},
      {"nesterov", Optimizer::nesterov(0.1F)},
      {"adagrad", Optimizer::adagrad(0.05F)},
      {"rmsprop", Optimizer::rmsprop(0.01F)},
      {"adam", Optimizer::adam(0.01F)},
      {"adamw", Optimizer::adamw(0.01F, 0.1F)},
      {"ftrl", Optimizer::ftrl(0.1F)},
      {"ftrl with l1 and l2", Optimizer::ftrl(0.1F, 0.3F, 0.2F)},
      {"lars", Optimizer::lars(0.5F, 0.01F, 0.9F, 0.1F)},
  };
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "ftrl"}) {
    Optimizer decayed = all.at(name);
    decayed.weight_decay = 0.05F;
    all.emplace(std::string(name) + " with decay", decayed);
  }
  return all;
}

/// Worker `worker`'s values of push `push`; push -1: the initial parameters.
Floats drawn(int push, int worker) {
  std::mt19937 random(static_cast<unsigned>(100 * (push + 1) + worker));
  std::normal_distribution<float> normal;
  Floats values(kElements);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

// [serial reference]
/// The sum of squares of up to 16 elements, as norms are computed: in f64, in one tree.
double squares(const Floats& x) {
  double sums[16] = {};
  for (std::size_t i = 0; i < x.size(); ++i) sums[i] = double(x[i]) * double(x[i]);
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

/// The parameters after `pushes` pushes of every worker, computed without weft.
Floats alone(const TableOptions& options, int pushes) {
  const Optimizer& rule = options.optimizer;
  Floats p = drawn(-1, 0);
  std::vector<std::array<float, 2>> states(p.size());
  std::uint64_t t = 0;
  for (int push = 0; push < pushes;) {
    Floats g = drawn(push, 0);
    int gradients = 0;
    for (std::uint32_t added = 0; added < options.accumulate; ++added, ++push)
      for (int worker = 0; worker < kWorkers; ++worker, ++gradients) {
        if (gradients == 0) continue;  // g is the first one already
        const Floats one = drawn(push, worker);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] += one[i];
      }
    Floats mean = g;
    for (float& x : mean) x *= 1.0F / static_cast<float>(gradients);
    const double norm = std::sqrt(squares(mean));
    float clip = 1.0F;
    if (options.clip_norm > 0.0F && norm > double(options.clip_norm))
      clip = static_cast<float>(double(options.clip_norm) / norm);
    ++t;
    const double rate = double(rule.learning_rate) * options.schedule.factor(t);
    const double of_p = std::sqrt(squares(p));
    const double of_g = double(clip) * norm;
    float trust = 1.0F;
    if (of_p != 0.0 && of_g != 0.0)
      trust =
          static_cast<float>(double(rule.trust) * of_p / (of_g + double(rule.weight_decay) * of_p));
    for (std::size_t i = 0; i < p.size(); ++i) {
      float state[2] = {states[i][0], states[i][1]};
      const float of_one = g[i] * (clip / static_cast<float>(gradients));
      p[i] = updated(rule, t, rate, trust, of_one, p[i], state);
      states[i] = {state[0], state[1]};
    }
  }
  return p;
}
// [end]

Floats by_a_table(const TableOptions& options, int pushes) {
  Floats outcome;
  run_on(kWorkers, [&](World& world) {
    pslib::ParameterServer server(world);
    Table table = server.table("model", {{"w", {kElements}}}, options);
    std::ranges::copy(drawn(-1, 0), table.parameter("w").as<float>().begin());
    table.initialize().or_throw();
    for (int push = 0; push < pushes; ++push) {
      std::ranges::copy(drawn(push, world.rank()), table.gradient("w").as<float>().begin());
      table.push_pull().or_throw();
    }
    const auto w = table.parameter("w").as<float>();
    if (world.rank() == 1) outcome.assign(w.begin(), w.end());
    world.leave().or_throw();
  });
  return outcome;
}

void expect_same_bits(const Floats& table, const Floats& reference) {
  ASSERT_EQ(table.size(), reference.size());
  for (std::size_t i = 0; i < table.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(table[i]), std::bit_cast<std::uint32_t>(reference[i]))
        << "element " << i << ": " << table[i] << " and " << reference[i];
}

TEST(SerialReference, HasTheBitsOfATableByEveryRule) {
  if (!has_fused_multiply_add()) GTEST_SKIP() << "this processor has no fused multiply-add";
  for (const auto& [name, rule] : rules()) {
    SCOPED_TRACE(name);
    const TableOptions options(rule);
    expect_same_bits(by_a_table(options, 6), alone(options, 6));
  }
}

TEST(SerialReference, HasTheBitsOfATableThatSchedulesClipsAndAccumulates) {
  if (!has_fused_multiply_add()) GTEST_SKIP() << "this processor has no fused multiply-add";
  for (const auto& [name, rule] : rules()) {
    SCOPED_TRACE(name);
    TableOptions options(rule);
    if (rule.kind != Optimizer::Kind::ftrl)
      options.schedule = {.kind = Schedule::Kind::cosine, .warmup = 2, .period = 3, .floor = 0.1F};
    options.clip_norm = 1.5F;
    expect_same_bits(by_a_table(options, 8), alone(options, 8));
    options.accumulate = 2;
    expect_same_bits(by_a_table(options, 8), alone(options, 8));
  }
}

TEST(SerialReference, HasTheBitsOfASparseTable) {
  if (!has_fused_multiply_add()) GTEST_SKIP() << "this processor has no fused multiply-add";
  for (const auto& [name, listed] : rules()) {
    const Optimizer& rule = listed;                    // clang 14 captures no binding
    if (rule.kind == Optimizer::Kind::lars) continue;  // not for rows
    SCOPED_TRACE(name);
    Floats row(kElements);
    Floats reference(kElements);
    run_on(2, [&](World& world) {
      pslib::ParameterServer server(world);
      pslib::SparseTable table =
          server.sparse_table("rows", {.dim = kElements, .optimizer = rule, .spread = 0.5F});
      const std::vector<std::uint64_t> twice{9, 9};
      Floats own(kElements);
      table.lookup({twice.data(), 1}, own).or_throw();
      if (world.rank() == 0) reference = own;
      for (int push = 0; push < 3; ++push) {
        Floats gradients = drawn(push, world.rank());
        const Floats second = drawn(push, world.rank() + 10);
        gradients.insert(gradients.end(), second.begin(), second.end());
        table.push(twice, gradients).or_throw();
      }
      table.lookup({twice.data(), 1}, own).or_throw();
      if (world.rank() == 0) row = own;
      world.leave().or_throw();
    });
    std::vector<std::array<float, 2>> states(kElements);
    for (int push = 0; push < 3; ++push)
      for (std::size_t i = 0; i < kElements; ++i) {
        float state[2] = {states[i][0], states[i][1]};
        // A worker adds up its own gradients of a row first.
        const float of_0 = drawn(push, 0)[i] + drawn(push, 10)[i];
        const float of_1 = drawn(push, 1)[i] + drawn(push, 11)[i];
        const float mean = (of_0 + of_1) * 0.5F;
        reference[i] = updated(rule, static_cast<std::uint64_t>(push + 1),
                               double(rule.learning_rate), 1.0F, mean, reference[i], state);
        states[i] = {state[0], state[1]};
      }
    expect_same_bits(row, reference);
  }
}

TEST(Schedules, StayAtTheirFloorAfterThePeriod) {
  for (const auto kind : {Schedule::Kind::cosine, Schedule::Kind::linear}) {
    const Schedule schedule{.kind = kind, .warmup = 4, .period = 10, .floor = 0.25F};
    EXPECT_EQ(schedule.factor(1), 0.25);
    EXPECT_EQ(schedule.factor(4), 1.0) << "the warm-up's last update";
    EXPECT_EQ(schedule.factor(5), 1.0) << "the first update after it";
    EXPECT_NEAR(schedule.factor(10), 0.625, 1e-12) << "half the period later";
    EXPECT_GT(schedule.factor(14), 0.25);
    for (const std::uint64_t later : {15U, 16U, 20U, 25U, 35U, 1000000U})
      EXPECT_EQ(schedule.factor(later), 0.25) << later;
  }
}

TEST(Schedules, CountApplicationsOfTheRule) {
  TableOptions options(Optimizer::sgd(1.0F));
  options.schedule = {.warmup = 4};
  options.accumulate = 2;
  run_on(1, [&](World& world) {
    pslib::ParameterServer server(world);
    Table table = server.table("model", {{"w", {1}}}, options);
    const auto w = table.parameter("w").as<float>();
    w[0] = 0.0F;
    table.initialize().or_throw();
    // Two pushes make an update: by 1/4, then by 2/4.
    for (const float wanted : {0.0F, -0.25F, -0.25F, -0.75F}) {
      table.gradient("w").as<float>()[0] = 1.0F;
      table.push_pull().or_throw();
      EXPECT_EQ(w[0], wanted);
    }
    EXPECT_EQ(table.version(), 4U) << "a step of all workers makes a version, whether the rule is "
                                      "applied or not";
    world.leave().or_throw();
  });
}

TEST(AdamW, ShrinksEveryParameterByTheScheduledRateAndNoMore) {
  TableOptions options(Optimizer::adamw(0.5F, 0.25F));
  options.schedule = {.warmup = 2};
  run_on(1, [&](World& world) {
    pslib::ParameterServer server(world);
    Table table = server.table("model", {{"w", {2}}, {"bias", {1}}}, options);
    std::ranges::fill(table.parameter("w").as<float>(), 2.0F);
    table.parameter("bias").as<float>()[0] = 4.0F;
    table.initialize().or_throw();
    // With gradients of zero the moments stay zero: the decay alone moves the parameters.
    for (const char* name : {"w", "bias"})
      std::ranges::fill(table.gradient(name).as<float>(), 0.0F);
    table.push_pull().or_throw();  // 1 - 0.5 * (1/2) * 0.25
    EXPECT_EQ(table.parameter("w").as<float>()[1], 2.0F * 0.9375F);
    EXPECT_EQ(table.parameter("bias").as<float>()[0], 4.0F * 0.9375F);
    table.push_pull().or_throw();  // 1 - 0.5 * 0.25
    EXPECT_EQ(table.parameter("w").as<float>()[1], 2.0F * 0.9375F * 0.875F);
    world.leave().or_throw();
  });
}

/// Three workers and a server, which answers no push before all three have pushed.
template <typename Check, typename Served>
void all_push_before_the_server_looks(const Consistency& consistency, const Check& check,
                                      const Served& served) {
  Meeting meeting(kWorkers + 1);
  std::atomic<int> initialized = 0;
  run_on(kWorkers + 1, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    TableOptions options(Optimizer::sgd(1.0F));
    options.consistency = consistency;
    auto table = std::make_unique<Table>(server.table("model", {{"w", {1}}}, options));
    pslib::Table* const tables[] = {table.get()};
    if (server.works()) {
      table->parameter("w").as<float>()[0] = 0.0F;
      table->initialize().or_throw();
      ++initialized;
      meeting.wait();  // from here on the server is not inside serve()
      table->gradient("w").as<float>()[0] = static_cast<float>(1 << world.rank());
      table->push().or_throw();
      meeting.wait();
      table->pull().or_throw();
      check(*table);
    } else {
      while (initialized < kWorkers) {
        const auto soon = Deadline::after(std::chrono::milliseconds(20));
        EXPECT_EQ(server.serve(tables, {}, soon).code(), Code::timeout);
      }
      meeting.wait();
      meeting.wait();
      server.serve(tables).or_throw();
      served(*table);
    }
    table.reset();
    (void)world.leave();
  });
}

TEST(FirstK, TakesKOfThoseThatHaveComeAndTheRestIsLate) {
  all_push_before_the_server_looks(
      Consistency::first(2),
      [](Table& table) {
        EXPECT_EQ(table.version(), 1U);
        const std::vector<int> taken = table.pulled().contributors;
        ASSERT_EQ(taken.size(), 2U);
        // The mean of those that it took.
        const auto sum = static_cast<float>((1 << taken[0]) + (1 << taken[1]));
        EXPECT_EQ(table.parameter("w").as<float>()[0], -0.5F * sum);
      },
      [](const Table& table) {
        EXPECT_EQ(table.statistics().applied, 2U);
        EXPECT_EQ(table.statistics().dropped, 1U);
      });
}

TEST(Asynchronous, MakesAnUpdateOfEachPushAtFullRate) {
  Meeting workers(kWorkers);
  all_push_before_the_server_looks(
      Consistency::async(),
      [&](Table& table) {
        EXPECT_EQ(table.pulled().contributors.size(), 1U);
        workers.wait();
        table.gradient("w").as<float>()[0] = 0.0F;
        table.push_pull().or_throw();
        EXPECT_EQ(table.parameter("w").as<float>()[0], -(1.0F + 2.0F + 4.0F));
        EXPECT_GE(table.version(), 4U);
      },
      [](const Table& table) { EXPECT_EQ(table.statistics().applied, 6U); });
}

}  // namespace
}  // namespace weft::tests
