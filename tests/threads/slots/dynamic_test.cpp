// Dynamic slots: the shape is free each time, the owner allocates and reads.
#include <gtest/gtest.h>

#include "tests/pattern.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

SlotSpec dynamic(std::uint32_t depth, const Shape& dims = {0, 0}) {
  return {.name = "batch",
          .dtype = DType::f32,
          .shape = dims,
          .depth = depth,
          .placement = Placement::dynamic};
}

/// A matrix whose sizes follow from its number; some have no elements.
Shape shape_of(std::uint64_t n) {
  return {static_cast<std::int64_t>(n % 7), static_cast<std::int64_t>(1 + mix(n) % 3000)};
}

/// Rank 1's side: each tensor is read before the next is put.
void put_one_by_one(World& world, const SlotSpec& spec, std::uint64_t count) {
  auto remote = world.attach(0, spec);
  for (std::uint64_t n = 1; n <= count; ++n) {
    const auto tensor = world.allocate(spec.dtype, {1000});
    fill(tensor, pattern_of(1, 0, n));
    remote.put(tensor).wait().or_throw();
  }
}

class DynamicSlot : public testing::TestWithParam<std::uint32_t> {};

TEST_P(DynamicSlot, BringsEveryTensorInItsOwnShape) {
  constexpr std::uint64_t kTensors = 200;
  const auto spec = dynamic(GetParam());
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        for (std::uint64_t n = 1; n <= kTensors; ++n) {
          const auto arrival = slot.wait().value();
          EXPECT_EQ(arrival.sequence(), n);
          EXPECT_EQ(arrival.tensor().shape(), shape_of(n));
          EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, n))) << "tensor " << n;
        }
      },
      [&](World& world, RemoteSlot& remote) {
        std::vector<Request> requests;
        for (std::uint64_t n = 1; n <= kTensors; ++n) {
          const auto tensor = world.allocate(spec.dtype, shape_of(n));
          fill(tensor, pattern_of(1, 0, n));
          requests.push_back(remote.put(tensor));
          // The handle is dropped here: weft keeps what the owner has not read.
          if (requests.size() == 16) {
            for (Request& request : requests) request.wait().or_throw();
            requests.clear();
          }
        }
        for (Request& request : requests) request.wait().or_throw();
        const auto edge = edge_counters(world, "batch", Role::puts);
        EXPECT_EQ(edge.transfers, kTensors);
        EXPECT_EQ(edge.work_requests, kTensors);
        EXPECT_EQ(edge.bytes_copied, 0U);
      });
}

INSTANTIATE_TEST_SUITE_P(Slots, DynamicSlot, testing::Values(1, 2, 4, 32),
                         testing::PrintToStringParamName());

TEST(Dynamic, AReusableSourceHasBeenRead) {
  const auto spec = dynamic(4, {0});
  Meeting meeting(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        meeting.wait();
        const auto arrival = slot.wait().value();
        EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, 1)));
        meeting.wait();
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensor = world.allocate(spec.dtype, {5000});
        fill(tensor, pattern_of(1, 0, 1));
        auto request = remote.put(tensor);
        EXPECT_FALSE(request.test()) << "nobody has read it";
        const Status late = request.wait(Deadline::after(milliseconds(20)));
        EXPECT_TRUE(tells(late, Code::timeout, {"rank 0", "has not read the tensor", "lent"}));
        EXPECT_FALSE(contains(late.text(), "cancel()")) << late.text();
        EXPECT_EQ(request.cancel().code(), Code::bad_argument) << "it can't be taken back";
        EXPECT_FALSE(request.test());
        meeting.wait();
        EXPECT_TRUE(request.wait().ok());
        meeting.wait();
      });
}

TEST(Dynamic, AnArrivalsTensorOutlivesItsArrivalByItsHandle) {
  const auto spec = dynamic(1, {0});
  run_pair(
      [&](World& world) {
        auto slot = world.expose(spec);
        std::vector<Tensor> kept;
        for (std::uint64_t n = 1; n <= 5; ++n) kept.push_back(slot.wait().value().tensor());
        for (std::uint64_t n = 1; n <= 5; ++n)
          EXPECT_TRUE(holds(kept[n - 1], pattern_of(1, 0, n))) << "tensor " << n;
      },
      [&](World& world) { put_one_by_one(world, spec, 5); });
}

TEST(Dynamic, SeveralArrivalsAreHeldAtOnceAndLetGoInAnyOrder) {
  const auto spec = dynamic(2, {0});
  run_pair(
      [&](World& world) {
        auto slot = world.expose(spec);
        const auto used = arena(world, "data").used_bytes;
        std::vector<Arrival> held;
        for (std::uint64_t n = 1; n <= 9; ++n) held.push_back(slot.wait().value());
        std::swap(held[0], held[7]);
        held.erase(held.begin() + 2, held.begin() + 6);
        for (const Arrival& arrival : held)
          EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, arrival.sequence())));
        held.clear();
        EXPECT_EQ(arena(world, "data").used_bytes, used);
      },
      [&](World& world) { put_one_by_one(world, spec, 9); });
}

/// The writer's arena grows by chunks that the owner has never heard of.
TEST(Dynamic, ATensorFromANewChunkIsFound) {
  const auto spec = dynamic(1, {0});
  constexpr std::int64_t kLarge = 3 << 20;  // f32: 12 MiB, chunks are 4 MiB
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        for (std::uint64_t n = 1; n <= 3; ++n)
          EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n)));
      },
      [&](World& world, RemoteSlot& remote) {
        std::vector<Tensor> tensors;
        for (std::uint64_t n = 1; n <= 3; ++n) {
          tensors.push_back(world.allocate(spec.dtype, {kLarge}));
          fill(tensors.back(), pattern_of(1, 0, n));
          remote.put(tensors.back()).wait().or_throw();
        }
      });
}

TEST(Dynamic, MemoryOutsideTheArenaAndStridesArePackedAndCounted) {
  const auto spec = dynamic(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, 1)));
        const auto slice = slot.wait().value();
        EXPECT_EQ(slice.tensor().shape(), Shape({3, 2}));
        EXPECT_EQ(slice.as<float>()[0], 1.0F);
        EXPECT_EQ(slice.as<float>()[5], 14.0F - 2.0F);
      },
      [&](World& world, RemoteSlot& remote) {
        std::vector<float> own(40);
        const auto outside = Tensor::wrap(own.data(), spec.dtype, {4, 10});
        fill(outside, pattern_of(1, 0, 1));
        remote.put(outside).wait().or_throw();
        EXPECT_EQ(edge_counters(world, "batch", Role::puts).bytes_copied, 160U);
        const auto wide = world.allocate(spec.dtype, {3, 5});
        for (int i = 0; i < 15; ++i) wide.as<float>()[static_cast<std::size_t>(i)] = float(i);
        remote.put(wide.slice(1, 1, 2)).wait().or_throw();
        EXPECT_EQ(edge_counters(world, "batch", Role::puts).bytes_copied, 160U + 24U);
      });
}

TEST(Dynamic, AnotherNumberOfDimensionsIsAMismatch) {
  const auto spec = dynamic(1);
  run_on(1, [&](World& world) {
    auto slot = world.expose(spec);
    auto remote = world.attach(0, spec);
    const auto flat = world.allocate(spec.dtype, {10});
    const auto status = remote.put(flat).wait();
    EXPECT_TRUE(tells(status, Code::mismatch, {"2 dimensions"}));
    EXPECT_EQ(remote.put(world.allocate(DType::f64, {1, 1})).wait().code(), Code::mismatch);
    const std::vector<Tensor> two(2, world.allocate(spec.dtype, {1, 1}));
    EXPECT_EQ(remote.put(two).wait().code(), Code::bad_argument);
    EXPECT_EQ(thrown_by([&] { world.attach(0, dynamic(1, {0})); }).code, Code::mismatch);
  });
}

TEST(Dynamic, TooMuchDepthAndSynchronousFlowAreRefused) {
  run_on(1, [&](World& world) {
    EXPECT_EQ(thrown_by([&] { world.expose(dynamic(33)); }).code, Code::bad_argument);
    auto synchronous = dynamic(1);
    synchronous.flow = Flow::unsafe_synchronous;
    EXPECT_EQ(thrown_by([&] { world.expose(synchronous); }).code, Code::bad_argument);
  });
}

TEST(Dynamic, TheCallersAllocatorDecidesWhereArrivalsLie) {
  const auto spec = dynamic(1, {0});
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        std::vector<float> own(1000);
        int asked = 0;
        slot.allocate_with([&](DType dtype, const Shape& shape) {
          ++asked;
          if (asked == 1) throw Error(ErrorDetail{.code = Code::exhausted, .message = "full"});
          return Tensor::wrap(own.data(), dtype, asked == 2 ? Shape{7} : shape);
        });
        EXPECT_EQ(slot.wait().code(), Code::exhausted);
        EXPECT_EQ(slot.wait().code(), Code::bad_argument) << "the wrong shape";
        const auto arrival = slot.wait().value();
        EXPECT_EQ(arrival.sequence(), 1U) << "nothing was lost by the refusals";
        EXPECT_EQ(arrival.tensor().data(), reinterpret_cast<std::byte*>(own.data()));
        EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, 1)));
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensor = world.allocate(spec.dtype, {1000});
        fill(tensor, pattern_of(1, 0, 1));
        remote.put(tensor).wait().or_throw();
      });
}

/// The writer's end goes at once; the owner reads the announced tensors from memory that weft keeps
/// for it.
TEST(Dynamic, WhatWasPutStaysReadableWhenTheWritersEndIsGone) {
  const auto spec = dynamic(4, {0});
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        auto slot = world.expose(spec);
        meeting.wait();
        meeting.wait();
        for (std::uint64_t n = 1; n <= 3; ++n)
          EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n)));
        meeting.wait();
      },
      [&](World& world) {
        meeting.wait();
        const auto used = arena(world, "data").used_bytes;
        {
          auto remote = world.attach(0, spec);
          for (std::uint64_t n = 1; n <= 3; ++n) {
            const auto tensor = world.allocate(spec.dtype, {1000});
            fill(tensor, pattern_of(1, 0, n));
            (void)remote.put(tensor);
          }
        }
        // Memory that is allocated now must not overlap the memory that the owner will read.
        std::vector<Tensor> others;
        for (int i = 0; i < 20; ++i) {
          others.push_back(world.allocate(spec.dtype, {1000}));
          fill(others.back(), 0);
        }
        others.clear();
        meeting.wait();
        meeting.wait();
        EXPECT_TRUE(soon([&] { return arena(world, "data").used_bytes == used; }));
      });
}

TEST(Dynamic, AClosedSlotEndsThePutsThatNobodyWillRead) {
  const auto spec = dynamic(4, {0});
  Meeting meeting(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        meeting.wait();
        slot = Slot();
        meeting.wait();
      },
      [&](World& world, RemoteSlot& remote) {
        auto request = remote.put(world.allocate(spec.dtype, {1000}));
        meeting.wait();
        EXPECT_EQ(request.wait().code(), Code::closed);
        meeting.wait();
      });
}

}  // namespace
}  // namespace weft::tests
