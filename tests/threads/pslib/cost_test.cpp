// The cost of a step, by the counters.
#include <gtest/gtest.h>

#include "tests/support/edges.hpp"
#include "tests/threads/pslib/own_share.hpp"
#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;

constexpr std::uint64_t kSteps = 20;

std::uint64_t parameter_bytes(const pslib::Table& table) {
  std::uint64_t bytes = 0;
  for (const auto& spec : table.specs())
    bytes += static_cast<std::uint64_t>(spec.shape.elements()) * sizeof(float);
  return bytes;
}

/// The sum over this rank's ends with this role of slots whose names end with the suffix.
TransferCounters edge_sum(const World& world, Role role, std::string_view name_end) {
  TransferCounters sum;
  for (const auto& edge : world.report().edges)
    if (edge.role == role && edge.slot.ends_with(name_end)) sum += edge.counters;
  return sum;
}

void expect_free_of_overhead(const TransferCounters& cost) {
  EXPECT_EQ(cost.bytes_copied, 0U);
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_EQ(cost.control_messages, 0U);
  EXPECT_EQ(cost.credit_writes, 0U) << "synchronous slots need no credits";
}

/// Runs `step` kSteps times on every rank, then `check` on the cost of these steps.
template <typename Step, typename Check>
void measure(int ranks, const Step& step, const Check& check) {
  Meeting meeting(ranks);
  run_on(ranks, [&](World& world) {
    pslib::ParameterServer server(world);
    auto table = server.table("model", Regression::specs(), Optimizer::adam(0.01F));
    table.initialize().or_throw();
    step(table);
    meeting.wait();
    const auto before = all_counters(world);
    const auto pulled_before = edge_sum(world, Role::views, "/parameters");
    const auto taken_before = edge_sum(world, Role::views, "/gradient");
    meeting.wait();
    for (std::uint64_t i = 0; i < kSteps; ++i) step(table);
    meeting.wait();
    expect_free_of_overhead(all_counters(world) - before);
    check(table, edge_sum(world, Role::views, "/parameters") - pulled_before,
          edge_sum(world, Role::views, "/gradient") - taken_before);
    world.leave().or_throw();
  });
}

TEST(StepCost, OfPushPullIsOneWorkRequestPerShardAndNothingElse) {
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    const auto n = static_cast<std::uint64_t>(ranks);
    measure(
        ranks, [](pslib::Table& table) { table.push_pull().or_throw(); },
        [&](const pslib::Table& table, const TransferCounters& pulls,
            const TransferCounters& gradients) {
          EXPECT_EQ(pulls.transfers, kSteps * n);
          EXPECT_EQ(pulls.work_requests, kSteps * n);
          EXPECT_EQ(pulls.bytes_moved, kSteps * parameter_bytes(table));
          EXPECT_EQ(gradients.transfers, kSteps * n) << "a shard reads every worker's gradients";
          EXPECT_EQ(gradients.work_requests, kSteps * n);
          EXPECT_EQ(gradients.bytes_moved, 0U) << "where they lie";
        });
  }
}

TEST(StepCost, OfReadingParametersWhereTheyLieIsNoMovedByte) {
  measure(
      3,
      [](pslib::Table& table) {
        table.push().or_throw();
        table.wait_updated().or_throw();
      },
      [&](const pslib::Table&, const TransferCounters& waits, const TransferCounters&) {
        EXPECT_EQ(waits.transfers, kSteps * 3);
        EXPECT_EQ(waits.work_requests, kSteps * 3);
        EXPECT_EQ(waits.bytes_moved, 0U);
      });
}

TEST(StepCost, BetweenHostsIsTheRanksOwnShare) {
  for (const DType wire : {DType::f32, DType::bf16})
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(std::string(name(wire)) + ", ranks " + std::to_string(ranks));
      pslib::TableOptions options(Optimizer::sgd(0.1F));
      options.wire = wire;
      Meeting meeting(ranks);
      run_on(ranks, settings().with(Setting::fabric, "tcp"),
             [&](World& world) { expect_to_receive_its_own_share(world, meeting, options); });
    }
}

TEST(StepCost, OfASparseTableBetweenHostsIsWhatIsAsked) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    Meeting meeting(ranks);
    run_on(ranks, settings().with(Setting::fabric, "tcp"),
           [&](World& world) { expect_to_receive_what_is_asked(world, meeting); });
  }
}

}  // namespace
}  // namespace weft::tests
