// A tensor that is put arrives whole, in order, for every size, element type and depth.
#include <gtest/gtest.h>

#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

/// Rank 1 puts `tensors` into a slot of rank 0 as fast as it can; rank 0 checks each.
void exchange(const SlotSpec& spec, std::uint64_t tensors) {
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        for (std::uint64_t n = 1; n <= tensors; ++n) {
          const auto arrival = slot.wait().value();
          EXPECT_EQ(arrival.sequence(), n);
          EXPECT_EQ(arrival.tensor().dtype(), spec.dtype);
          EXPECT_EQ(arrival.tensor().shape(), spec.shape);
          EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, n))) << "tensor " << n;
        }
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensor = world.allocate(spec.dtype, spec.shape);
        for (std::uint64_t n = 1; n <= tensors; ++n) {
          fill(tensor, pattern_of(1, 0, n));
          remote.put(tensor).wait().or_throw();
        }
      });
}

class PutWaitSize : public testing::TestWithParam<std::int64_t> {};

TEST_P(PutWaitSize, ArrivesWhole) {
  const auto bytes = GetParam();
  // With a depth of 2, large tensors are copied through the cache 4 times, then past it 4 times.
  exchange({.name = "bytes", .dtype = DType::u8, .shape = {bytes}, .depth = 2},
           bytes > (1 << 20) ? 10 : 50);
}

INSTANTIATE_TEST_SUITE_P(Slots, PutWaitSize,
                         testing::Values(0, 1, 8, 48, 56, 57, 63, 64, 65, (64 << 10) + 1, 8 << 20),
                         [](const auto& size) { return std::to_string(size.param) + "_bytes"; });

class PutWaitElement : public testing::TestWithParam<DType> {};

TEST_P(PutWaitElement, ArrivesWithItsTypeAndShape) {
  exchange({.name = "typed", .dtype = GetParam(), .shape = {3, 1, 5}, .depth = 1}, 5);
}

INSTANTIATE_TEST_SUITE_P(Slots, PutWaitElement,
                         testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16,
                                         DType::i64, DType::i32, DType::i8, DType::u8,
                                         DType::boolean),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

class PutWaitDepth : public testing::TestWithParam<std::uint32_t> {};

TEST_P(PutWaitDepth, KeepsTheOrder) {
  const auto depth = GetParam();
  exchange({.name = "deep", .dtype = DType::f32, .shape = {100}, .depth = depth}, 20 * depth + 3);
}

INSTANTIATE_TEST_SUITE_P(Slots, PutWaitDepth, testing::Values(1, 2, 4, 7),
                         testing::PrintToStringParamName());

TEST(PutWait, AScalarArrives) {
  exchange({.name = "scalar", .dtype = DType::f64, .shape = {}, .depth = 1}, 3);
}

TEST(PutWait, ARankMayWriteIntoItsOwnSlot) {
  const SlotSpec spec{.name = "mine", .dtype = DType::i64, .shape = {9}, .depth = 2};
  run_on(1, [&](World& world) {
    auto slot = world.expose(spec);
    auto remote = world.attach(world.rank(), spec);
    EXPECT_EQ(remote.owner(), world.rank());
    const auto tensor = world.allocate(spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= 10; ++n) {
      fill(tensor, pattern_of(0, 0, n));
      remote.put(tensor).wait().or_throw();
      const auto arrival = slot.wait().value();
      EXPECT_EQ(arrival.sequence(), n);
      EXPECT_TRUE(holds(arrival.tensor(), pattern_of(0, 0, n)));
    }
  });
}

TEST(PutWait, AnAttachWaitsForTheSlotToBeExposed) {
  const SlotSpec spec{.name = "late", .dtype = DType::u8, .shape = {4}};
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    meeting.wait();
    if (world.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      auto slot = world.expose(spec);
      EXPECT_EQ(slot.wait().value().sequence(), 1U);
    } else {
      auto remote = world.attach(0, spec);
      const auto tensor = world.allocate(spec.dtype, spec.shape);
      EXPECT_TRUE(remote.put(tensor).wait().ok());
    }
  });
}

TEST(PutWait, AnAttachByNameTakesTheOwnersDeclaration) {
  const SlotSpec spec{.name = "declared", .dtype = DType::bf16, .shape = {2, 3}, .depth = 5};
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Slot slot;
    if (world.rank() == 0) {
      slot = world.expose(spec);
    } else {
      const auto remote = world.attach(0, "declared");
      EXPECT_EQ(remote.spec().name, spec.name);
      EXPECT_EQ(remote.spec().dtype, spec.dtype);
      EXPECT_EQ(remote.spec().shape, spec.shape);
      EXPECT_EQ(remote.spec().depth, spec.depth);
    }
    meeting.wait();
  });
}

TEST(PutWait, SlotsInBothDirectionsWorkAtTheSameTime) {
  const SlotSpec spec{.name = "there and back", .dtype = DType::f32, .shape = {257}, .depth = 2};
  run_on(4, [&](World& world) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    auto slot = world.expose(spec);
    auto remote = world.attach(next, spec);
    const auto tensor = world.allocate(spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= 50; ++n) {
      fill(tensor, pattern_of(world.rank(), 0, n));
      remote.put(tensor).wait().or_throw();
      const auto arrival = slot.wait().value();
      EXPECT_TRUE(holds(arrival.tensor(), pattern_of(previous, 0, n))) << "tensor " << n;
    }
  });
}

}  // namespace
}  // namespace weft::tests
