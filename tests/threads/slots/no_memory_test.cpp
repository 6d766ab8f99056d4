// Tensors that have elements by their shape but no memory for them are refused: nothing is put, and
// nothing is read into them.
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"
#include "weft/published_slot.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

void expect_no_memory(const Status& status) {
  EXPECT_EQ(status.code(), Code::bad_argument) << status.text();
  EXPECT_TRUE(contains(status.text(), "no memory")) << status.text();
}

Tensor null_tensor(const Shape& shape) { return Tensor::wrap(nullptr, DType::f32, shape); }

/// A tensor of that shape that was moved from.
Tensor moved_from(World& world, const Shape& shape) {
  Tensor tensor = world.allocate(DType::f32, shape);
  const Tensor kept = std::move(tensor);
  return tensor;  // NOLINT(bugprone-use-after-move): what it is then
}

void expect_nothing_came(Slot& slot) {
  EXPECT_EQ(slot.wait(Deadline::after(milliseconds(20))).code(), Code::timeout);
}

TEST(NoMemory, PutsIntoAFixedSlotAreRefused) {
  run_ranks(
      1,
      [](World& world) {
        const SlotSpec spec{.name = "fixed", .shape = {16}, .depth = 2};
        auto slot = world.expose(spec);
        auto remote = world.attach(0, spec);
        for (const Until until : {Until::reusable, Until::delivered}) {
          expect_no_memory(remote.put(null_tensor({16}), until).wait());
          expect_no_memory(remote.put(moved_from(world, {16}), until).wait());
          expect_no_memory(remote.put(Tensor(), until).wait());
        }
        const Tensor tensor = world.allocate(DType::f32, {16});
        for (const Tensor& bare : {null_tensor({10}), moved_from(world, {10})})
          for (const auto& parts :
               {std::vector{tensor.part(0, {6}), bare}, std::vector{bare, tensor.part(0, {6})}})
            expect_no_memory(remote.put(parts).wait());
        expect_nothing_came(slot);
        EXPECT_TRUE(remote.put(tensor).wait().ok());
        EXPECT_EQ(slot.wait().value().sequence(), 1U);
      },
      settings());
}

TEST(NoMemory, PutsOfAScalarAreRefused) {
  run_ranks(
      1,
      [](World& world) {
        // A default-constructed tensor has just this dtype and shape.
        const SlotSpec spec{.name = "scalar", .dtype = DType::u8, .shape = {}};
        auto slot = world.expose(spec);
        auto remote = world.attach(0, spec);
        expect_no_memory(remote.put(Tensor()).wait());
        expect_nothing_came(slot);
      },
      settings());
}

TEST(NoMemory, PutsBehindPendingOnesAreRefused) {
  run_ranks(
      1,
      [](World& world) {
        const SlotSpec spec{.name = "full", .shape = {16}};
        auto slot = world.expose(spec);
        auto remote = world.attach(0, spec);
        const Tensor tensor = world.allocate(DType::f32, {16});
        EXPECT_TRUE(remote.put(tensor).wait().ok());
        auto pending = remote.put(tensor);
        expect_no_memory(remote.put(null_tensor({16})).wait());
        EXPECT_TRUE(slot.wait().ok());
        EXPECT_TRUE(pending.wait().ok());
        EXPECT_TRUE(slot.wait().ok());
        expect_nothing_came(slot);
      },
      settings());
}

TEST(NoMemory, PutsIntoADynamicSlotAreRefused) {
  run_ranks(
      1,
      [](World& world) {
        const SlotSpec spec{
            .name = "dynamic", .shape = {1}, .depth = 2, .placement = Placement::dynamic};
        auto slot = world.expose(spec);
        auto remote = world.attach(0, spec);
        expect_no_memory(remote.put(null_tensor({8})).wait());
        expect_no_memory(remote.put(moved_from(world, {8})).wait());
        expect_nothing_came(slot);
        auto nothing = remote.put(null_tensor({0}));
        EXPECT_EQ(slot.wait().value().tensor().bytes(), 0U) << "no elements need no memory";
        EXPECT_TRUE(nothing.wait().ok());

        slot.allocate_with(
            [](DType dtype, const Shape& shape) { return Tensor::wrap(nullptr, dtype, shape); });
        auto request = remote.put(world.allocate(DType::f32, {8}));
        const auto arrival = slot.wait(Deadline::after(milliseconds(500)));
        EXPECT_EQ(arrival.code(), Code::bad_argument) << arrival.status().text();
        EXPECT_TRUE(contains(arrival.status().text(), "without memory")) << arrival.status().text();
      },
      settings());
}

TEST(NoMemory, NothingIsGotIntoSuchATensor) {
  run_ranks(
      1,
      [](World& world) {
        const PublishedSpec spec{.name = "news", .shape = {8}};
        auto slot = world.expose_published(spec);
        auto reader = world.attach_published(0, spec);
        fill(slot.next().value(), 3);
        slot.publish().or_throw();
        expect_no_memory(reader.get(null_tensor({8})));
        expect_no_memory(reader.get(moved_from(world, {8})));
        expect_no_memory(reader.get(Tensor()));
        const Tensor tensor = world.allocate(DType::f32, {8});
        const std::array<SlotRun, 2> runs{SlotRun{0, 4, tensor.data()}, SlotRun{4, 4, nullptr}};
        expect_no_memory(reader.get(runs));
        EXPECT_TRUE(reader.ready()) << "the version was not taken";
        EXPECT_TRUE(
            reader.get(std::array{SlotRun{0, 8, tensor.data()}, SlotRun{8, 0, nullptr}}).ok());
        EXPECT_TRUE(holds(tensor, 3));
      },
      settings());
}

}  // namespace
}  // namespace weft::tests
