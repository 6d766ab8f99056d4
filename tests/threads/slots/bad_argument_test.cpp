// Invalid calls are refused with an error that gives the argument and the accepted values; nothing
// is lost.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"
#include "weft/signal.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

const SlotSpec kSpec{.name = "edge", .dtype = DType::f32, .shape = {16}, .depth = 2};

/// Requires that a slot of this rank's own still works.
void expect_usable(World& world, const std::string& name = "proof") {
  SlotSpec spec = kSpec;
  spec.name = name;
  auto slot = world.expose(spec);
  auto remote = world.attach(world.rank(), spec);
  const auto tensor = world.allocate(spec.dtype, spec.shape);
  fill(tensor, 7);
  EXPECT_TRUE(remote.put(tensor).wait().ok());
  EXPECT_TRUE(holds(slot.wait().value().tensor(), 7));
}

ErrorDetail refused_expose(World& world, const SlotSpec& spec) {
  return thrown_by([&] { (void)world.expose(spec); });
}

TEST(BadArgument, ADuplicateNameIsRefusedAndTheFirstSlotWorksOn) {
  run_on(1, [](World& world) {
    auto slot = world.expose(kSpec);
    SlotSpec twin = kSpec;
    twin.dtype = DType::i8;
    for (const auto& spec : {kSpec, twin}) {
      const auto refused = refused_expose(world, spec);
      EXPECT_TRUE(tells(refused, Code::duplicate_name, {"edge"}));
    }
    auto remote = world.attach(0, kSpec);
    EXPECT_TRUE(remote.put(world.allocate(kSpec.dtype, kSpec.shape)).wait().ok());
    EXPECT_TRUE(slot.wait().ok());
    expect_usable(world);
  });
}

TEST(BadArgument, SettingsThatNoJobTakesAreRefusedAtJoin) {
  for (const auto& [setting, value, code] : {std::tuple{Setting::gpu, "x", Code::bad_config},
                                             {Setting::gpu, "-1", Code::bad_config},
                                             {Setting::gpu, "GPU-12", Code::bad_config},
                                             {Setting::subscribe_addr, "x", Code::bad_config}}) {
    const Config config = settings().with(setting, value);
    const ErrorDetail refused = thrown_by([&] { run_on(1, config, [](World&) {}); });
    EXPECT_TRUE(tells(refused, code, {value}));
  }
}

TEST(BadArgument, DepthMustBeFrom1To4096) {
  run_on(1, [](World& world) {
    for (const std::uint32_t depth : {0U, 4097U, 5000U}) {
      SlotSpec spec = kSpec;
      spec.depth = depth;
      const auto refused = refused_expose(world, spec);
      EXPECT_TRUE(tells(refused, Code::bad_argument, {std::to_string(depth), "4096"}));
    }
    SlotSpec deepest = kSpec;
    deepest.depth = 4096;
    EXPECT_EQ(refused_expose(world, deepest).code, Code::ok);
    expect_usable(world);
  });
}

TEST(BadArgument, ANameHas1To200Bytes) {
  run_on(1, [](World& world) {
    for (const std::size_t length : {0U, 201U, 100'000U}) {
      SlotSpec spec = kSpec;
      spec.name = std::string(length, 'n');
      const auto refused = refused_expose(world, spec);
      EXPECT_TRUE(tells(refused, Code::bad_argument, {"200"}));
      EXPECT_EQ(thrown_by([&] { (void)world.attach(0, spec); }).code, Code::bad_argument);
    }
    expect_usable(world, std::string(200, 'n'));
    expect_usable(world, "n");
  });
}

TEST(BadArgument, APutMustHaveTheSlotsTypeAndShape) {
  run_on(1, [](World& world) {
    auto slot = world.expose(kSpec);
    auto remote = world.attach(0, kSpec);
    const std::vector<Tensor> wrong{
        world.allocate(DType::i32, {16}), world.allocate(DType::f32, {17}),
        world.allocate(DType::f32, {15}), world.allocate(DType::f32, {4, 4})};
    for (const auto& tensor : wrong) {
      auto request = remote.put(tensor);
      EXPECT_TRUE(request.test());
      const auto status = request.wait();
      EXPECT_TRUE(tells(status, Code::mismatch, {tensor.text(), "f32[16]"}));
    }
    EXPECT_FALSE(remote.put(Tensor()).wait().ok());
    EXPECT_EQ(slot.wait(Deadline::after(milliseconds(20))).code(), Code::timeout)
        << "nothing of a refused put arrives";
    EXPECT_TRUE(remote.put(world.allocate(kSpec.dtype, kSpec.shape)).wait().ok());
    EXPECT_EQ(slot.wait().value().sequence(), 1U);
  });
}

TEST(BadArgument, ValuesOutsideTheirEnumerationAreRefused) {
  run_ranks(
      1,
      [](World& world) {
        constexpr auto kNone = static_cast<DType>(99);
        const auto expect_refused = [](const ErrorDetail& refused) {
          EXPECT_EQ(refused.code, Code::bad_argument) << refused.text();
          EXPECT_TRUE(contains(refused.text(), "99 does not exist")) << refused.text();
        };
        expect_refused(thrown_by([&] { (void)world.allocate(kNone, {8}); }));
        std::vector<float> memory(8);
        expect_refused(thrown_by([&] { (void)world.adopt(memory.data(), kNone, {8}, [] {}); }));
        SlotSpec spec = kSpec;
        spec.dtype = kNone;
        expect_refused(refused_expose(world, spec));
        expect_refused(thrown_by([&] { (void)world.attach(0, spec); }));
        spec = kSpec;
        spec.flow = static_cast<Flow>(99);
        expect_refused(refused_expose(world, spec));
        spec = kSpec;
        spec.placement = static_cast<Placement>(99);
        expect_refused(refused_expose(world, spec));
        expect_refused(thrown_by(
            [&] { (void)world.expose_published({.name = "news", .dtype = kNone, .shape = {8}}); }));
        auto slot = world.expose(kSpec);
        auto remote = world.attach(0, kSpec);
        EXPECT_FALSE(remote.put(Tensor::wrap(memory.data(), kNone, {16})).wait().ok());
        expect_usable(world);
      },
      settings());
}

TEST(BadArgument, ASignalFollowsPutsOfItsOwnWorldAlone) {
  run_ranks(
      1,
      [](World& world) {
        run_ranks(
            1,
            [&](World& other) {
              auto slot = other.expose(kSpec);
              auto remote = other.attach(0, kSpec);
              Signal signal = Signal::expose(world, "signal");
              RemoteSignal to_signal = RemoteSignal::attach(world, 0, "signal");
              const Tensor tensor = other.allocate(kSpec.dtype, kSpec.shape);
              const Status refused = to_signal.put(remote, tensor, 1);
              EXPECT_EQ(refused.code(), Code::bad_argument) << refused.text();
              EXPECT_TRUE(contains(refused.text(), "another world")) << refused.text();
              EXPECT_EQ(signal.value(), 0U);
              EXPECT_FALSE(slot.ready());
            },
            settings());
      },
      settings());
}

TEST(Exhausted, AnArenaAtItsLimitSaysSoWithFigures) {
  const auto small = settings().with(Setting::arena_chunk, "2m").with(Setting::arena_max, "8m");
  run_on(1, small, [](World& world) {
    const auto refused =
        thrown_by([&] { (void)world.allocate(DType::u8, {std::int64_t{16} << 20}); });
    EXPECT_TRUE(tells(refused, Code::exhausted, {"16", "8", "WEFT_ARENA_MAX"}));
    expect_usable(world);

    std::vector<Tensor> held;
    const auto full = thrown_by([&] {
      for (int i = 0; i < 100; ++i) held.push_back(world.allocate(DType::u8, {512 << 10}));
    });
    EXPECT_EQ(full.code, Code::exhausted);
    EXPECT_GE(held.size(), 8U) << "half of the limit at least can be used";
    EXPECT_LE(held.size(), 16U) << "the limit holds";
    held.clear();
    expect_usable(world);
  });
}

TEST(Exhausted, MoreDepthThanMemoryIsRefused) {
  const auto small = settings().with(Setting::arena_chunk, "2m").with(Setting::arena_max, "8m");
  run_on(1, small, [](World& world) {
    SlotSpec spec = kSpec;
    spec.shape = {256 << 10};
    spec.depth = 64;
    const auto refused = refused_expose(world, spec);
    EXPECT_TRUE(tells(refused, Code::exhausted, {"WEFT_ARENA_MAX"}));
    spec.depth = 2;
    EXPECT_EQ(refused_expose(world, spec).code, Code::ok) << "the name was not kept";
    expect_usable(world);
  });
}

TEST(Exhausted, AbsurdSizesAreRefused) {
  run_on(1, [](World& world) {
    for (const int bits : {46, 59}) {
      for (const DType dtype : {DType::u8, DType::f64}) {
        const auto refused =
            thrown_by([&] { (void)world.allocate(dtype, {std::int64_t{1} << bits}); });
        EXPECT_EQ(refused.code, Code::exhausted) << refused.text();
      }
    }
    for (const std::int64_t elements : {std::int64_t{1} << 60, INT64_MAX - 63, INT64_MAX}) {
      const auto refused = thrown_by([&] { (void)world.allocate(DType::u8, {elements}); });
      EXPECT_TRUE(tells(refused, Code::bad_argument, {std::to_string(elements)}));
    }
    // Each buffer could be addressed, all of them together could not.
    SlotSpec spec = kSpec;
    spec.shape = {std::int64_t{1} << 52};
    spec.depth = 4096;
    const auto slot = refused_expose(world, spec);
    EXPECT_TRUE(slot.code == Code::exhausted || slot.code == Code::bad_argument) << slot.text();
    expect_usable(world);
  });
}

}  // namespace
}  // namespace weft::tests
