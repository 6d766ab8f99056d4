// Whole jobs with tables whose pushes are compressed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/threads/pslib/training.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

using pslib::Compression;
using pslib::Consistency;
using pslib::Optimizer;
using pslib::Table;
using pslib::TableOptions;

const Compression kBoth[] = {Compression::int8(), Compression::top_k(0.2F)};

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TableOptions compressed(const Compression& compression, const Consistency& consistency = {},
                        const Optimizer& rule = Optimizer::sgd(1.0F)) {
  TableOptions options(rule);
  options.compression = compression;
  options.consistency = consistency;
  return options;
}

/// The cost of a rank's ends of the table's gradient and parameter slots; without the slot of the
/// initial parameters, which is dropped during the job.
TransferCounters step_counters(const World& world) {
  TransferCounters sum;
  for (const auto& edge : world.report().edges)
    if (edge.slot.ends_with("/gradient") || edge.slot.ends_with("/parameters"))
      sum += edge.counters;
  return sum;
}

/// Runs every rank's part in a table: workers run `work`, servers serve.
template <typename Work>
void run_job(int ranks, const pslib::Options& placement,
             const std::vector<pslib::TensorSpec>& specs, const TableOptions& options,
             const Work& work) {
  run_on(ranks, [&](World& world) {
    pslib::ParameterServer server(world, placement);
    {
      Table table = server.table("model", specs, options);
      if (server.works()) {
        work(world, table);
        if (server.serves()) world.leave().or_throw();
      } else {
        Table* const tables[] = {&table};
        server.serve(tables).or_throw();
      }
    }
    (void)world.leave();
  });
}

struct Trained {
  Floats parameters;
  double loss = 0;
};

/// Trains a regression on `workers` ranks; `placement.dedicated_servers` further ranks only serve.
Trained train(int workers, pslib::Options placement, const TableOptions& options, int steps) {
  const Regression model;
  Trained outcome;
  run_job(workers + placement.dedicated_servers, placement, Regression::specs(), options,
          [&](World& world, Table& table) {
            if (world.rank() == 0) fill_parameters(table, 0);
            table.initialize().or_throw();
            for (int step = 0; step < steps; ++step) {
              model.gradient(table, world.rank(), workers);
              table.push_pull().or_throw();
            }
            if (world.rank() != 0) return;
            outcome.parameters = parameters(table);
            // The squared norm of the whole batch's gradient is 0 where the loss is minimal.
            model.gradient(table, 0, 1);
            for (const auto& spec : table.specs())
              for (const float g : table.gradient(spec.name).as<float>())
                outcome.loss += static_cast<double>(g) * static_cast<double>(g);
          });
  return outcome;
}

TEST(CompressedTable, StartsWithTheFirstWorkersParametersUncompressed) {
  for (const Compression& compression : kBoth) {
    const Floats plain = train(3, {}, TableOptions{}, 0).parameters;
    EXPECT_TRUE(same_bits(train(3, {}, compressed(compression), 0).parameters, plain));
    const auto asynchronous = compressed(compression, Consistency::async());
    EXPECT_TRUE(same_bits(train(3, {.dedicated_servers = 2}, asynchronous, 0).parameters, plain));
  }
}

TEST(CompressedTable, LearnsTheSameBitsHoweverTensorsAreSpread) {
  for (const Compression& compression : kBoth) {
    for (const Optimizer& rule : {Optimizer::sgd(0.1F), Optimizer::adam(0.02F)}) {
      TableOptions options = compressed(compression, {}, rule);
      options.clip_norm = 1.0F;
      options.accumulate = 2;
      const Floats whole = train(3, {.split_bytes = 1 << 20}, options, 10).parameters;
      EXPECT_TRUE(same_bits(train(3, {.split_bytes = 1}, options, 10).parameters, whole));
      const pslib::Options apart{.dedicated_servers = 2, .split_bytes = 64};
      EXPECT_TRUE(same_bits(train(3, apart, options, 10).parameters, whole));
    }
  }
}

TEST(CompressedTable, LearnsTheSameBitsWithReplicas) {
  for (const Compression& compression : kBoth) {
    const TableOptions options = compressed(compression, {}, Optimizer::adam(0.02F));
    const Floats alone =
        train(2, {.dedicated_servers = 3, .split_bytes = 64}, options, 10).parameters;
    const pslib::Options replicated{.dedicated_servers = 3, .replicas = 2, .split_bytes = 64};
    EXPECT_TRUE(same_bits(train(2, replicated, options, 10).parameters, alone));
  }
}

TEST(CompressedTable, ComesAsCloseToTheLeastLossAsOneThatIsNot) {
  const double start = train(2, {}, TableOptions(Optimizer::sgd(0.05F)), 0).loss;
  TableOptions options(Optimizer::sgd(0.05F));
  ASSERT_LT(train(2, {}, options, 200).loss, 1e-3 * start);
  for (const Compression& compression : kBoth) {
    options.compression = compression;
    EXPECT_LT(train(2, {}, options, 200).loss, 1e-3 * start)
        << "kind " << static_cast<int>(compression.kind);
  }
}

// int8 holds 127 times a power of two without loss, so the sum shows that each push counts once.
TEST(CompressedTable, AppliesEveryPushOnceWhateverItsConsistency) {
  constexpr int kWorkers = 3;
  constexpr int kSteps = 25;
  const std::vector<pslib::TensorSpec> specs{{"a", Shape{300}}, {"b", Shape{7}}};
  for (const Consistency& consistency :
       {Consistency::async(), Consistency::ssp(2), Consistency::first(2, Consistency::Late::folded),
        Consistency::first(2, Consistency::Late::dropped)}) {
    SCOPED_TRACE("consistency " + std::to_string(static_cast<int>(consistency.kind)));
    Meeting meeting(kWorkers);
    const bool is_first = consistency.kind == Consistency::Kind::k_of_n;
    run_job(kWorkers + 1, {.dedicated_servers = 1}, specs,
            compressed(Compression::int8(), consistency), [&](World&, Table& table) {
              table.initialize().or_throw();
              std::uint64_t last = 0;
              const auto step = [&](float gradient) {
                for (const auto& spec : specs)
                  std::ranges::fill(table.gradient(spec.name).as<float>(), gradient);
                table.push_pull().or_throw();
                const float value = table.parameter("a").as<float>()[0];
                for (const auto& spec : specs)
                  for (const float p : table.parameter(spec.name).as<float>()) ASSERT_EQ(p, value);
                EXPECT_GE(table.version(), last) << "a version went back";
                last = table.version();
                if (!is_first) {
                  EXPECT_LE(value, 127.0F * static_cast<float>(last));
                }
                EXPECT_EQ(std::remainder(value, 127.0F), 0.0F);
              };
              for (int i = 0; i < kSteps; ++i) step(-127.0F);
              if (is_first) return;  // workers ahead close the table, so the last can go on
              meeting.wait();
              step(0.0F);
              EXPECT_EQ(table.parameter("a").as<float>()[0], 127.0F * kWorkers * kSteps);
            });
  }
}

TEST(CompressedTable, DrainsWhatTopKHeldBackIntoTheParameters) {
  constexpr int kWorkers = 2;
  const std::vector<pslib::TensorSpec> specs{{"a", Shape{1000}}};
  Meeting meeting(kWorkers);
  run_job(kWorkers + 2, {.dedicated_servers = 2, .split_bytes = 64}, specs,
          compressed(Compression::top_k(0.1F), Consistency::async()), [&](World&, Table& table) {
            table.initialize().or_throw();
            const auto gradient = table.gradient("a").as<float>();
            for (int step = 0; step < 5; ++step) {
              std::ranges::fill(gradient, -1.0F);
              table.push_pull().or_throw();
            }
            EXPECT_GT(table.compression().residual_norm, 0.0);
            std::ranges::fill(gradient, 0.0F);
            for (int step = 0; step < 10; ++step) table.push_pull().or_throw();
            EXPECT_EQ(table.compression().residual_norm, 0.0);
            meeting.wait();
            table.push_pull().or_throw();
            for (const float p : table.parameter("a").as<float>()) EXPECT_EQ(p, 5.0F * kWorkers);
          });
}

TEST(CompressedTable, TakesTheStepAgainThatItRefused) {
  for (const int servers : {0, 1}) {
    const std::vector<pslib::TensorSpec> specs{{"a", Shape{300}}};
    run_job(
        1 + servers, {.dedicated_servers = servers}, specs,
        compressed(Compression::int8(), servers == 0 ? Consistency::bsp() : Consistency::async()),
        [&](World&, Table& table) {
          table.initialize().or_throw();
          const auto gradient = table.gradient("a").as<float>();
          std::ranges::fill(gradient, -127.0F);
          gradient[5] = std::numeric_limits<float>::infinity();
          EXPECT_EQ(table.push_pull().code(), Code::bad_argument);
          EXPECT_EQ(table.version(), 0U);
          gradient[5] = -127.0F;
          table.push_pull().or_throw();
          EXPECT_EQ(table.version(), 1U);
          for (const float p : table.parameter("a").as<float>()) EXPECT_EQ(p, 127.0F);
        });
  }
}

TEST(CompressedTable, GoesOnFromACheckpointOnOtherServers) {
  const TempFolder folder;
  for (const Compression& compression : kBoth) {
    TableOptions options = compressed(compression, {}, Optimizer::adam(0.02F));
    options.checkpoint = {
        .folder = (folder.path() / std::to_string(static_cast<int>(compression.kind))).string(),
        .every = 5};
    const Trained before = train(2, {.dedicated_servers = 3, .split_bytes = 64}, options, 15);
    const Trained restored = train(2, {.dedicated_servers = 1}, options, 0);
    EXPECT_TRUE(same_bits(restored.parameters, before.parameters));
    EXPECT_LT(train(2, {}, options, 60).loss, before.loss);
  }
}

TEST(CompressedTable, SendsFewerBytesAndCopiesAndAsksNothing) {
  for (const Compression& compression : kBoth) {
    Meeting meeting(2);
    run_job(2, {}, {{"a", Shape{5000}}}, compressed(compression), [&](World& world, Table& table) {
      table.initialize().or_throw();
      table.push_pull().or_throw();
      meeting.wait();
      const auto before = step_counters(world);
      meeting.wait();
      for (int step = 0; step < 10; ++step) table.push_pull().or_throw();
      meeting.wait();
      const auto cost = step_counters(world) - before;
      EXPECT_EQ(cost.bytes_copied, 0U);
      EXPECT_EQ(cost.registrations, 0U);
      EXPECT_EQ(cost.control_messages, 0U);
      const auto seen = table.compression();
      EXPECT_GT(seen.bytes_spared, 11U * 5000 * 2) << "more than half";
      EXPECT_LT(seen.bytes_spared, 11U * 5008 * 4);
      EXPECT_GT(seen.nanoseconds, 0U);
    });
  }
}

TEST(CompressedTable, MustBeCompressedAlikeAtAllRanks) {
  run_on(2, [](World& world) {
    pslib::ParameterServer server(world);
    try {
      (void)server.table("model", {{"a", Shape{1000}}},
                         compressed(Compression::top_k(world.rank() == 0 ? 0.1F : 0.2F)));
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::mismatch);
      EXPECT_TRUE(contains(error.what(), "compression top_k(ratio 0.")) << error.what();
    }
    (void)world.leave();
  });
}

}  // namespace
}  // namespace weft::tests
