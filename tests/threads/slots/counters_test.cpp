// The cost of a transfer is counted where the work is posted, and the steady state costs nothing
// but the transfer.
#include <gtest/gtest.h>

#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

const SlotSpec kSpec{.name = "edge", .dtype = DType::f32, .shape = {5000}, .depth = 3};
constexpr std::uint64_t kBytes = 5000 * sizeof(float);
constexpr std::uint64_t kTensors = 40;

/// Rank 1 puts kTensors tensors made by `source`; `check` gets this rank's cost, after one put that
/// is not counted.
template <typename Source, typename Check>
void measure(const Config& config, Source&& source, Check&& check) {
  Meeting meeting(2);
  run_on(2, config, [&](World& world) {
    Slot slot;
    RemoteSlot remote;
    Tensor tensor;
    if (world.rank() == 0) {
      slot = world.expose(kSpec);
    } else {
      remote = world.attach(0, kSpec);
      tensor = source(world);
    }
    const auto step = [&](std::uint64_t n) {
      if (world.rank() == 0) {
        EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n)));
      } else {
        fill(tensor, pattern_of(1, 0, n));
        remote.put(tensor).wait().or_throw();
      }
    };
    step(0);
    meeting.wait();
    const auto before = all_counters(world);
    meeting.wait();
    for (std::uint64_t n = 1; n <= kTensors; ++n) step(n);
    const auto cost = all_counters(world) - before;
    meeting.wait();  // tearing down costs messages
    check(world, cost);
  });
}

Tensor arena_tensor(World& world) { return world.allocate(kSpec.dtype, kSpec.shape); }

TEST(Counters, SteadyStateIsOneWorkRequestPerTransferAndNothingElse) {
  measure(settings(), arena_tensor, [](World& world, const TransferCounters& cost) {
    EXPECT_EQ(cost.transfers, kTensors);
    EXPECT_EQ(cost.bytes_copied, 0U);
    EXPECT_EQ(cost.control_messages, 0U);
    EXPECT_EQ(cost.registrations, 0U);
    if (world.rank() == 1) {
      EXPECT_EQ(cost.work_requests, kTensors);
      EXPECT_EQ(cost.bytes_moved, kTensors * kBytes);
      EXPECT_EQ(cost.credit_writes, 0U);
    } else {
      EXPECT_EQ(cost.work_requests, 0U);
    }
  });
}

TEST(Counters, APartOfAnArenaTensorIsNotCopied) {
  const auto source = [](World& world) {
    return world.allocate(DType::f32, {3, 5000}).part(5000, kSpec.shape);
  };
  measure(settings(), source, [](World&, const TransferCounters& cost) {
    EXPECT_EQ(cost.bytes_copied, 0U);
    EXPECT_EQ(cost.registrations, 0U);
  });
}

TEST(Counters, AWrappedTensorIsStagedAndCountedAsCopied) {
  std::vector<float> mine(5000);
  const auto source = [&](World&) { return Tensor::wrap(mine.data(), DType::f32, kSpec.shape); };
  measure(settings(), source, [](World& world, const TransferCounters& cost) {
    EXPECT_EQ(cost.bytes_copied, world.rank() == 1 ? kTensors * kBytes : 0);
    EXPECT_EQ(cost.work_requests, world.rank() == 1 ? kTensors : 0);
    EXPECT_EQ(cost.registrations, 0U);
  });
}

TEST(Counters, AnotherWorldsTensorIsStaged) {
  // A tensor of another rank's arena counts as foreign, like the user's own memory.
  Tensor foreign;
  run_ranks(1, [&](World& world) { foreign = world.allocate(kSpec.dtype, kSpec.shape); });
  const auto source = [&](World&) { return foreign; };
  measure(settings(), source, [](World& world, const TransferCounters& cost) {
    EXPECT_EQ(cost.bytes_copied, world.rank() == 1 ? kTensors * kBytes : 0);
  });
}

TEST(Counters, AttachIsPaidInControlMessagesAndRegistrations) {
  run_owner_and_writer(
      kSpec,
      [](World& world, Slot& slot) {
        EXPECT_EQ(slot.wait().value().sequence(), 1U);
        EXPECT_GE(all_counters(world).control_messages, 1U);
      },
      [](World& world, RemoteSlot& remote) {
        const auto tensor = world.allocate(kSpec.dtype, kSpec.shape);
        EXPECT_TRUE(remote.put(tensor).wait().ok());
        EXPECT_GE(all_counters(world).control_messages, 1U);
      });
}

}  // namespace
}  // namespace weft::tests
