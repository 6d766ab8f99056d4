// Sparse tables with 16 bits on the wire: rows and states stay f32, and every value is rounded
// once, when it is sent.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/threads/pslib/sparse_history.hpp"
#include "tests/threads/pslib/sparse_job.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using pslib::Optimizer;
using pslib::SparseOptions;
using pslib::SparseTable;

constexpr DType kWires[] = {DType::bf16, DType::f16};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// plain() with one worker that is its own server: an update subtracts the push.
SparseOptions sent_as(DType wire) {
  SparseOptions options = plain(Consistency::bsp());
  options.wire = wire;
  return options;
}

/// A row of four equal elements.
Floats row_of(float value) { return Floats(4, value); }

float look_up(SparseTable& table, std::uint64_t id) {
  Floats row(4);
  table.lookup(Ids{id}, row).or_throw();
  EXPECT_EQ(row, row_of(row[0]));
  return row[0];
}

TEST(SparseWire, GivesRowsThatAreRoundedWhereTheyAreSentAndNowhereElse) {
  constexpr std::pair<int, int> kJobs[] = {{1, 0}, {3, 0}, {1, 1}, {2, 2}, {3, 1}};
  for (unsigned seed = 200; seed < 220; ++seed) {
    const auto [workers, servers] = kJobs[seed % std::size(kJobs)];
    const DType wire = kWires[seed / std::size(kJobs) % std::size(kWires)];
    SCOPED_TRACE(std::string(name(wire)) + ", seed " + std::to_string(seed));
    const History history(seed, static_cast<std::size_t>(workers), {wire});
    run_sparse(workers, servers, history.options(), [&](World& world, SparseTable& table) {
      history.replay(static_cast<std::size_t>(world.rank()), table, history.steps());
    });
  }
}

// With one worker each push is an update, as in bsp.
TEST(SparseWire, GivesTheSameBitsOutOfStep) {
  for (unsigned seed = 220; seed < 230; ++seed) {
    const DType wire = kWires[seed % std::size(kWires)];
    SCOPED_TRACE(std::string(name(wire)) + ", seed " + std::to_string(seed));
    const History history(seed, 1, {wire});
    SparseOptions options = history.options();
    options.consistency = seed % 3 == 0 ? Consistency::ssp(1) : Consistency::async();
    run_sparse(1, 2, options,
               [&](World&, SparseTable& table) { history.replay(0, table, history.steps()); });
  }
}

TEST(SparseWire, AddsDuplicatesBeforeItRounds) {
  for (const auto& [wire, large] : {std::pair{DType::bf16, 256.0F}, {DType::f16, 2048.0F}}) {
    SCOPED_TRACE(name(wire));
    run_sparse(1, 0, sent_as(wire), [&, large = large](World&, SparseTable& table) {
      const Ids ids{7, 8, 7, 7, 7, 7};
      Floats gradients(ids.size() * 4, 1.0F);
      std::fill_n(gradients.begin(), 4, large);
      Floats rows(ids.size() * 4);
      table.push_lookup(ids, gradients, ids, rows).or_throw();
      Floats expected(rows.size(), -large - 4.0F);
      std::fill_n(expected.begin() + 4, 4, -1.0F);
      EXPECT_EQ(rows, expected) << "large + 1 alone would be rounded to large";
    });
  }
}

TEST(SparseWire, KeepsWhatIsTooSmallForIt) {
  for (const DType wire : kWires) {
    SCOPED_TRACE(name(wire));
    run_sparse(1, 0, sent_as(wire), [](World&, SparseTable& table) {
      table.push(Ids{1}, row_of(-1.0F)).or_throw();
      const Floats little = row_of(-0x1p-12F);
      table.push(Ids{1}, little).or_throw();
      EXPECT_EQ(look_up(table, 1), 1.0F);
      for (int step = 1; step < 64; ++step) table.push(Ids{1}, little).or_throw();
      EXPECT_EQ(look_up(table, 1), 1.0F + 0x1p-6F) << "16 bits would have stayed at 1";
    });
  }
}

TEST(SparseWire, TakesEmptyBatches) {
  for (const DType wire : kWires) {
    SCOPED_TRACE(name(wire));
    run_sparse(2, 1, sent_as(wire), [](World& world, SparseTable& table) {
      const bool pushes = world.rank() == 0;
      const Ids ids = pushes ? Ids{1, 2} : Ids{};
      Floats rows(ids.size() * 4);
      table.lookup(ids, rows).or_throw();
      table.push_lookup(ids, Floats(rows.size(), 3.0F), ids, rows).or_throw();
      EXPECT_EQ(rows, Floats(rows.size(), -1.5F)) << "who pushed nothing counts as zeros";
      table.push_lookup({}, {}, {}, {}).or_throw();
      EXPECT_EQ(table.version(), 2U);
    });
  }
}

// As in dense tables: no value is refused, and only the value on the wire is infinite.
TEST(SparseWire, SendsInfinityForWhatIsTooLarge) {
  run_sparse(1, 0, sent_as(DType::f16), [](World&, SparseTable& table) {
    table.push(Ids{1}, row_of(1e5F)).or_throw();
    EXPECT_EQ(look_up(table, 1), -kInfinity);
    table.push(Ids{2, 2}, Floats(8, 4e4F)).or_throw();
    EXPECT_EQ(look_up(table, 2), -kInfinity) << "the sum is rounded";
    for (int step = 0; step < 2; ++step) table.push(Ids{3}, row_of(-6e4F)).or_throw();
    EXPECT_EQ(look_up(table, 3), kInfinity);
    table.push(Ids{3}, row_of(6e4F)).or_throw();
    EXPECT_EQ(look_up(table, 3), 6e4F) << "the stored row was finite";
  });
  run_sparse(1, 0, sent_as(DType::bf16), [](World&, SparseTable& table) {
    table.push(Ids{1}, row_of(1e5F)).or_throw();
    EXPECT_EQ(row_of(look_up(table, 1)), as_sent(row_of(-1e5F), DType::bf16));
  });
}

TEST(DenseWire, SendsInfinityForWhatIsTooLarge) {
  run_on(1, [](World& world) {
    pslib::ParameterServer server(world);
    pslib::TableOptions options(Optimizer::sgd(1.0F));
    options.wire = DType::f16;
    auto table = server.table("model", {{"t", Shape{1}}}, options);
    table.initialize().or_throw();
    const auto after = [&](float gradient) {
      kernels::narrow(table.gradient("t").data(), DType::f16, &gradient, 1);
      table.push_pull().or_throw();
      float value = 0;
      kernels::widen(&value, table.parameter("t").data(), DType::f16, 1);
      return value;
    };
    EXPECT_EQ(after(-6e4F), as_sent({6e4F}, DType::f16)[0]);
    EXPECT_EQ(after(-6e4F), kInfinity);
    EXPECT_EQ(after(6e4F), as_sent({6e4F}, DType::f16)[0]);
    EXPECT_EQ(after(1e5F), -kInfinity);
    world.leave().or_throw();
  });
}

TEST(SparseWire, IsTheSameOnAllRanksOrRefusedWithBothSidesWords) {
  run_on(2, [](World& world) {
    pslib::ParameterServer server(world);
    const auto refusal = [&](const char* table, DType usual, DType other) {
      const DType wire = world.rank() == 0 ? usual : other;
      const auto detail = thrown_by([&] { (void)server.sparse_table(table, sent_as(wire)); });
      EXPECT_EQ(detail.code, Code::mismatch) << detail.text();
      return detail.text();
    };
    const std::string halves = refusal("halves", DType::f16, DType::bf16);
    EXPECT_TRUE(contains(halves, "wire f16")) << halves;
    EXPECT_TRUE(contains(halves, "wire bf16")) << halves;
    const std::string one = refusal("one", DType::f32, DType::bf16);
    EXPECT_TRUE(contains(one, world.rank() == 0 ? "here: nothing; on rank 1: wire bf16"
                                                : "here: wire bf16; on rank 0: nothing"))
        << one;
  });
}

}  // namespace
}  // namespace weft::tests
