// A table's parameters are bit-identical to those of the same optimizer, run alone on the same
// gradients.
#include <gtest/gtest.h>

#include <cstring>

#include "base/kernels/combine.hpp"
#include "pslib/optimizer/updater.hpp"
#include "tests/threads/pslib/training.hpp"
#include "tests/unit/pslib/reference.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;
using pslib::Schedule;
using pslib::TableOptions;

constexpr int kSteps = 6;

std::vector<pslib::TensorSpec> specs() {
  return {{"a", Shape{61, 17}}, {"b", Shape{5}}, {"c", Shape{4000}}, {"d", Shape{}}};
}

/// A worker's values for a tensor in a step (step -1: the initial parameters), rounded to the wire
/// type.
Floats values(const pslib::TensorSpec& spec, int step, int worker, DType wire) {
  std::mt19937 random(static_cast<unsigned>(1000 * (step + 1) + worker + spec.name.front()));
  Floats all = random_floats(static_cast<std::size_t>(spec.shape.elements()), random);
  if (wire == DType::f32) return all;
  std::vector<std::byte> narrow(all.size() * 2);
  kernels::narrow(narrow.data(), wire, all.data(), all.size());
  kernels::widen(all.data(), narrow.data(), wire, all.size());
  return all;
}

void write(const Tensor& to, const Floats& from) {
  if (to.dtype() == DType::f32)
    std::memcpy(to.data(), from.data(), to.bytes());
  else
    kernels::narrow(to.data(), to.dtype(), from.data(), from.size());
}

using Bytes = std::vector<std::byte>;

Bytes trained(int ranks, const TableOptions& options, std::size_t split) {
  std::vector<Bytes> outcome(static_cast<std::size_t>(ranks));
  run_on(ranks, [&](World& world) {
    pslib::ParameterServer server(world, {.workers = {}, .servers = {}, .split_bytes = split});
    auto table = server.table("model", specs(), options);
    for (const auto& spec : specs())
      write(table.parameter(spec.name), values(spec, -1, 0, options.wire));
    table.initialize().or_throw();
    for (int step = 0; step < kSteps; ++step) {
      for (const auto& spec : specs())
        write(table.gradient(spec.name), values(spec, step, world.rank(), options.wire));
      table.push_pull().or_throw();
    }
    Bytes& mine = outcome[static_cast<std::size_t>(world.rank())];
    for (const auto& spec : specs()) {
      const Tensor tensor = table.parameter(spec.name);
      mine.insert(mine.end(), tensor.data(), tensor.data() + tensor.bytes());
    }
    world.leave().or_throw();
  });
  for (const Bytes& of_rank : outcome) EXPECT_EQ(of_rank, outcome.front());
  return outcome.front();
}

/// Runs the optimizer over all tensors in one region of memory, on one rank.
Bytes alone(int workers, TableOptions options) {
  const DType wire = options.wire;
  options.wire = DType::f32;  // what values() gives is rounded already
  std::vector<pslib::Run> runs;
  Floats parameters;
  for (const auto& spec : specs()) {
    runs.push_back(
        {runs.size(), static_cast<std::int64_t>(parameters.size()), spec.shape.elements()});
    const Floats initial = values(spec, -1, 0, wire);
    parameters.insert(parameters.end(), initial.begin(), initial.end());
  }
  pslib::Updater updater(options, runs.size(), static_cast<std::int64_t>(parameters.size()),
                         static_cast<std::size_t>(workers));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<Floats>> gradients;
    std::vector<std::vector<pslib::Source>> sources;
    for (const auto& spec : specs()) {
      gradients.emplace_back();
      sources.emplace_back();
      for (int worker = 0; worker < workers; ++worker)
        gradients.back().push_back(values(spec, step, worker, wire));
      for (const Floats& gradient : gradients.back())
        sources.back().push_back({reinterpret_cast<const std::byte*>(gradient.data())});
    }
    updater.begin(static_cast<std::size_t>(workers));
    for (const auto& run : runs)
      if (!updater.due())
        updater.keep(run, sources[run.tensor]);
      else if (updater.measures())
        updater.measure(run, parameters.data(), sources[run.tensor]);
    for (const auto& run : runs)
      if (updater.due())
        updater.apply(run, parameters.data(), parameters.data(), sources[run.tensor]);
  }
  Bytes bytes(parameters.size() * size_of(wire));
  if (wire == DType::f32)
    std::memcpy(bytes.data(), parameters.data(), bytes.size());
  else
    kernels::narrow(bytes.data(), wire, parameters.data(), parameters.size());
  return bytes;
}

void expect_same_bits(const TableOptions& options, std::initializer_list<int> jobs = {1, 2, 5}) {
  for (const int ranks : jobs)
    for (const std::size_t split : {std::size_t{1}, std::size_t{1} << 20}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, split_bytes " + std::to_string(split));
      EXPECT_EQ(trained(ranks, options, split), alone(ranks, options));
    }
}

TEST(TableRules, GiveTheSameBitsAsAlone) {
  for (const auto& [name, rule] : every_rule()) {
    SCOPED_TRACE(name);
    expect_same_bits(rule, {3});
  }
}

TEST(TableRules, GiveTheSameBitsAsAloneWhenClippedAccumulatedAndScheduled) {
  for (const auto& rule : {Optimizer::adamw(0.01F, 0.1F), Optimizer::lars(0.5F, 0.01F)}) {
    TableOptions options(rule);
    options.clip_norm = 20.0F;
    options.accumulate = 2;
    options.schedule = {.kind = Schedule::Kind::cosine, .warmup = 2, .period = 4};
    expect_same_bits(options);
  }
}

TEST(TableRules, GiveTheSameBitsAsAloneWithSixteenBitsOnTheWire) {
  for (const DType wire : {DType::bf16, DType::f16}) {
    TableOptions options(Optimizer::adam(0.01F));
    options.wire = wire;
    expect_same_bits(options);
    options.clip_norm = 20.0F;
    expect_same_bits(options);
  }
}

TEST(TableRules, WithSixteenBitsKeepWhatIsTooSmallForThem) {
  run_on(1, [](World& world) {
    pslib::ParameterServer server(world);
    TableOptions options(Optimizer::sgd(1.0F / 1024));
    options.wire = DType::bf16;
    auto table = server.table("model", {{"t", Shape{32}}}, options);
    const Floats ones(32, 1.0F);
    write(table.parameter("t"), ones);
    table.initialize().or_throw();
    write(table.gradient("t"), ones);
    for (int step = 0; step < 16; ++step) table.push_pull().or_throw();
    Floats now(32);
    kernels::widen(now.data(), table.parameter("t").data(), DType::bf16, now.size());
    for (const float p : now) EXPECT_EQ(p, 1.0F - 16.0F / 1024) << "a bf16 master would be 1";
    EXPECT_TRUE(table.view("t").value().values().empty());
    EXPECT_EQ(table.view("t").value().bytes().size(), 64U);
    world.leave().or_throw();
  });
}

// Two servers wait for each other's norms of tables whose pushes come in different order: neither
// must hold the other up.
TEST(TableRules, ExchangeNormsOfSeveralTablesInWhateverOrder) {
  run_on(4, [](World& world) {
    pslib::ParameterServer server(world, {.workers = {0, 1}, .servers = {2, 3}, .split_bytes = 64});
    TableOptions options(Optimizer::sgd(1.0F));
    options.clip_norm = 1.0F;
    auto a = server.table("a", {{"t", Shape{100}}}, options);
    auto b = server.table("b", {{"t", Shape{100}}}, options);
    pslib::Table* const tables[] = {&a, &b};
    if (world.rank() >= 2) {
      server.serve(tables).or_throw();
    } else {
      for (pslib::Table* table : tables) table->initialize().or_throw();
      for (int step = 0; step < 20; ++step) {
        pslib::Table* const first = tables[(step + world.rank()) % 2];
        pslib::Table* const second = tables[(step + world.rank() + 1) % 2];
        for (pslib::Table* table : {first, second}) {
          std::ranges::fill(table->gradient("t").as<float>(), 1.0F);
          table->push().or_throw();
        }
        for (pslib::Table* table : {first, second}) table->pull().or_throw();
      }
      // The norm of 100 ones is 10: each step takes 0.1.
      for (pslib::Table* table : tables)
        for (const float p : table->parameter("t").as<float>()) EXPECT_NEAR(p, -2.0F, 1e-5F);
    }
    world.leave().or_throw();
  });
}

}  // namespace
}  // namespace weft::tests
