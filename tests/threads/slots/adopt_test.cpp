// Memory that the user owns, as source and target: weft keeps it as long as needed, and no longer.
#include <gtest/gtest.h>

#include <memory_resource>

#include "tests/pattern.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

/// Memory that records when it may be freed.
struct Owned {
  std::vector<float> values = std::vector<float>(4000);
  std::atomic<int> unused{0};

  Tensor lend(World& world, const Shape& shape) {
    return world.adopt(values.data(), DType::f32, shape, [this] { ++unused; });
  }
};

TEST(Adopt, AnAdoptedTensorIsPutWithoutACopyAndGivenBackWithItsLastHandle) {
  const SlotSpec spec{.name = "in", .dtype = DType::f32, .shape = {1000}};
  run_pair(
      [&](World& world) {
        auto slot = world.expose(spec);
        EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, 1)));
      },
      [&](World& world) {
        Owned owned;
        auto remote = world.attach(0, spec);
        auto tensor = owned.lend(world, {1000});
        fill(tensor, pattern_of(1, 0, 1));
        remote.put(tensor).wait().or_throw();
        EXPECT_EQ(edge_counters(world, "in", Role::puts).bytes_copied, 0U);
        const auto part = tensor.part(10, {10});
        tensor = {};
        EXPECT_EQ(owned.unused, 0) << "a part of it still lives";
      });
  Owned owned;
  {
    Tensor part;
    run_on(1, [&](World& world) { part = owned.lend(world, {2, 500}).slice(1, 3, 4); });
    EXPECT_EQ(owned.unused, 0) << "tensors may outlive their world";
  }
  EXPECT_EQ(owned.unused, 1);
}

TEST(Adopt, ADynamicPutLendsAdoptedMemoryUntilItWasRead) {
  const SlotSpec spec{
      .name = "in", .dtype = DType::f32, .shape = {0}, .placement = Placement::dynamic};
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        auto slot = world.expose(spec);
        meeting.wait();
        meeting.wait();
        EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, 1)));
        meeting.wait();
      },
      [&](World& world) {
        Owned owned;
        auto remote = world.attach(0, spec);
        meeting.wait();
        Request request;
        {
          const auto tensor = owned.lend(world, {3000});
          fill(tensor, pattern_of(1, 0, 1));
          request = remote.put(tensor.part(0, {3000}));
        }
        EXPECT_EQ(owned.unused, 0) << "the owner has not read it";
        meeting.wait();
        request.wait().or_throw();
        EXPECT_EQ(owned.unused, 1);
        meeting.wait();
      });
}

TEST(Adopt, ASlotInAdoptedMemoryIsWrittenThereAndKeepsItUntilItsWriterAgreed) {
  const SlotSpec spec{.name = "in", .dtype = DType::f32, .shape = {1000}, .depth = 4};
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        Owned owned;
        auto slot = world.expose(spec, owned.lend(world, {4, 1000}));
        for (std::uint64_t n = 1; n <= 10; ++n) {
          const auto arrival = slot.wait().value();
          const auto* data = reinterpret_cast<const float*>(arrival.tensor().data());
          EXPECT_EQ(data, owned.values.data() + (n - 1) % 4 * 1000);
          EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, n)));
        }
        EXPECT_EQ(edge_counters(world, "in", Role::receives).bytes_copied, 0U);
        EXPECT_EQ(owned.unused, 0);
        meeting.wait();
        slot = Slot();
        EXPECT_TRUE(soon([&] { return owned.unused == 1; }));
        meeting.wait();
      },
      [&](World& world) {
        auto remote = world.attach(0, spec);
        const auto tensor = world.allocate(spec.dtype, spec.shape);
        for (std::uint64_t n = 1; n <= 10; ++n) {
          fill(tensor, pattern_of(1, 0, n));
          remote.put(tensor).wait().or_throw();
        }
        meeting.wait();
        meeting.wait();
      });
}

TEST(Adopt, MemoryThatDoesNotFitTheSlotIsRefused) {
  const SlotSpec spec{.name = "in", .dtype = DType::f32, .shape = {1000}, .depth = 2};
  run_on(1, [&](World& world) {
    Owned owned;
    const auto refused = [&](SlotSpec asked, const Tensor& memory) {
      return thrown_by([&] { world.expose(asked, memory); }).code;
    };
    const auto memory = owned.lend(world, {2, 1000});
    EXPECT_EQ(refused(spec, memory.part(0, {1000})), Code::bad_argument);
    EXPECT_EQ(refused(spec, Tensor::wrap(owned.values.data(), DType::f32, {2, 1000})),
              Code::bad_argument)
        << "it is not adopted";
    EXPECT_EQ(refused(spec, world.allocate(DType::i32, {2, 1000})), Code::bad_argument);
    EXPECT_EQ(refused(spec, {}), Code::bad_argument);
    auto dynamic = spec;
    dynamic.placement = Placement::dynamic;
    EXPECT_EQ(refused(dynamic, memory), Code::bad_argument);
    EXPECT_EQ(refused(spec, memory), Code::ok);
    EXPECT_EQ(thrown_by([&] { world.adopt(nullptr, DType::f32, {1}); }).code, Code::bad_argument);
    int unused = 0;
    EXPECT_EQ(thrown_by([&] { world.adopt(nullptr, DType::f32, {1}, [&] { ++unused; }); }).code,
              Code::bad_argument);
    EXPECT_EQ(unused, 0) << "what was not adopted is not given back";
  });
}

TEST(Adopt, ContainersInTheWorldsMemoryArePutWithoutStaging) {
  const SlotSpec spec{.name = "in", .dtype = DType::f32, .shape = {1000}};
  run_on(1, [&](World& world) {
    const auto used = arena(world, "data").used_bytes;
    {
      std::pmr::vector<float> values(1000, 2.5F, &world.memory());
      auto slot = world.expose(spec);
      auto remote = world.attach(0, spec);
      remote.put(Tensor::wrap(values.data(), DType::f32, {1000})).wait().or_throw();
      EXPECT_EQ(slot.wait().value().as<float>()[999], 2.5F);
      EXPECT_EQ(edge_counters(world, "in", Role::puts).bytes_copied, 0U);
    }
    EXPECT_TRUE(soon([&] { return arena(world, "data").used_bytes == used; }));
  });
}

}  // namespace
}  // namespace weft::tests
