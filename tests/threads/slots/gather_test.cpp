// Several tensors, or tensors with strides, put as one.
#include <gtest/gtest.h>

#include "tests/pattern.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

SlotSpec plain(const Shape& shape) {
  return {.name = "all", .dtype = DType::f32, .shape = shape, .depth = 2};
}

TEST(Gather, ManyTensorsArriveAsOneInOneOperation) {
  constexpr std::uint64_t kPuts = 20;
  const auto spec = plain({1000});
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        for (std::uint64_t n = 1; n <= kPuts; ++n) {
          const auto arrival = slot.wait().value();
          const auto& tensor = arrival.tensor();
          EXPECT_TRUE(holds(tensor.part(0, {100}), pattern_of(1, 0, n)));
          EXPECT_TRUE(holds(tensor.part(100, {20, 45}), pattern_of(1, 1, n)));
        }
      },
      [&](World& world, RemoteSlot& remote) {
        const std::vector<Tensor> parts = {world.allocate(DType::f32, {100}),
                                           world.allocate(DType::f32, {0}),
                                           world.allocate(DType::f32, {20, 45})};
        for (std::uint64_t n = 1; n <= kPuts; ++n) {
          fill(parts[0], pattern_of(1, 0, n));
          fill(parts[2], pattern_of(1, 1, n));
          remote.put(parts).wait().or_throw();
        }
        const auto edge = edge_counters(world, "all", Role::puts);
        EXPECT_EQ(edge.transfers, kPuts);
        EXPECT_EQ(edge.work_requests, kPuts);
        EXPECT_EQ(edge.bytes_copied, 0U) << "gathering packs nothing";
        EXPECT_EQ(edge.bytes_moved, kPuts * 4000U);
      });
}

TEST(Gather, AGatheredPutWithoutACreditStaysPendingAndKeepsItsTensors) {
  Meeting meeting(2);
  const auto spec = plain({64});
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        meeting.wait();
        for (std::uint64_t n = 1; n <= 6; ++n) {
          const auto arrival = slot.wait().value();
          EXPECT_TRUE(holds(arrival.tensor().part(0, {32}), pattern_of(1, 0, n)));
          EXPECT_TRUE(holds(arrival.tensor().part(32, {32}), pattern_of(1, 1, n)));
        }
      },
      [&](World& world, RemoteSlot& remote) {
        std::vector<Request> requests;
        for (std::uint64_t n = 1; n <= 6; ++n) {
          const std::vector<Tensor> parts = {world.allocate(DType::f32, {32}),
                                             world.allocate(DType::f32, {32})};
          fill(parts[0], pattern_of(1, 0, n));
          fill(parts[1], pattern_of(1, 1, n));
          requests.push_back(remote.put(parts));
        }
        meeting.wait();
        for (Request& request : requests) request.wait().or_throw();
      });
}

TEST(Gather, StridesArePutAsTheyLie) {
  const auto spec = plain({40, 8});
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        const auto arrival = slot.wait().value();
        for (std::size_t row = 0; row < 40; ++row)
          for (std::size_t column = 0; column < 8; ++column)
            ASSERT_EQ(arrival.as<float>()[row * 8 + column],
                      static_cast<float>(row * 32 + column + 5));
      },
      [&](World& world, RemoteSlot& remote) {
        const auto wide = world.allocate(DType::f32, {40, 32});
        for (std::size_t i = 0; i < 40 * 32; ++i) wide.as<float>()[i] = static_cast<float>(i);
        remote.put(wide.slice(1, 5, 8)).wait().or_throw();
        EXPECT_EQ(edge_counters(world, "all", Role::puts).bytes_copied, 0U);
      });
}

TEST(Gather, PartsOutsideTheArenaAreStagedAndCounted) {
  const auto spec = plain({20});
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        const auto arrival = slot.wait().value();
        EXPECT_TRUE(holds(arrival.tensor().part(0, {10}), 1));
        EXPECT_TRUE(holds(arrival.tensor().part(10, {10}), 2));
      },
      [&](World& world, RemoteSlot& remote) {
        std::vector<float> own(10);
        const std::vector<Tensor> parts = {Tensor::wrap(own.data(), DType::f32, {10}),
                                           world.allocate(DType::f32, {10})};
        fill(parts[0], 1);
        fill(parts[1], 2);
        remote.put(parts).wait().or_throw();
        EXPECT_EQ(edge_counters(world, "all", Role::puts).bytes_copied, 80U);
      });
}

TEST(Gather, PartsThatDoNotFillTheSlotAreAMismatch) {
  run_on(1, [&](World& world) {
    const auto spec = plain({20});
    auto slot = world.expose(spec);
    auto remote = world.attach(0, spec);
    const auto ten = world.allocate(DType::f32, {10});
    EXPECT_EQ(remote.put(std::vector<Tensor>{ten}).wait().code(), Code::mismatch);
    EXPECT_EQ(remote.put(std::vector<Tensor>{ten, ten, ten}).wait().code(), Code::mismatch);
    const auto i32 = world.allocate(DType::i32, {10});
    EXPECT_EQ(remote.put(std::vector<Tensor>{ten, i32}).wait().code(), Code::mismatch);
    EXPECT_EQ(remote.put(std::vector<Tensor>{}).wait().code(), Code::mismatch);
    EXPECT_TRUE(remote.put(std::vector<Tensor>{ten, ten}).wait().ok());
  });
}

}  // namespace
}  // namespace weft::tests
