// Puts behind a stream into dynamic slots, and of several tensors.
#include <chrono>
#include <thread>

#include "tests/cuda/slots/streams.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSent = 3000;
constexpr std::size_t kTimes = 6;

SlotSpec sizes(Memory memory, std::uint32_t depth = 2) {
  return {.name = "in",
          .shape = {1},
          .depth = depth,
          .placement = Placement::dynamic,
          .memory = memory};
}

class DynamicStreams : public OnStandInStreams {
 protected:
  /// Rank 1's stream fills one tensor again and again and puts it; its thread does not wait.
  static std::vector<std::vector<float>> exchange(Over fabric, Memory from,
                                                  std::uint64_t seed = 1) {
    std::vector<std::vector<float>> seen;
    const auto body = [&](World& world) {
      if (world.rank() == 0) {
        Slot slot = world.expose(sizes(Memory::host()));
        for (std::size_t turn = 0; turn <= kTimes; ++turn) {
          const Arrival arrival = slot.wait().value();
          if (turn != 0) seen.push_back(elements_of(world, arrival.tensor()));
        }
      } else {
        const Tensor tensor = world.allocate(DType::f32, {kSent}, from);
        RemoteSlot remote = world.attach(0, sizes({}));
        OwnStream own(world, 0, kSent, kTimes);
        remote.put(tensor, own.get()).wait().or_throw();
        for (std::size_t turn = 0; turn < kTimes; ++turn) {
          own.fill(turn, tensor, static_cast<float>(turn));
          Request request = remote.put(tensor, own.get());
          // No stream may wait while the application's copies into pageable memory go on.
          EXPECT_OK_STATUS(from.is_gpu() ? request.wait_on(own.get()) : request.wait());
        }
        own.synchronize();
      }
      meet(world);
    };
    run_over(fabric, body, seed);
    return seen;
  }
  static std::vector<std::vector<float>> expected() {
    std::vector<std::vector<float>> all;
    for (std::size_t turn = 0; turn < kTimes; ++turn)
      all.push_back(counted(kSent, static_cast<float>(turn)));
    return all;
  }
};

TEST_F(DynamicStreams, OrderPutsOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;  // an application's wait for its stream is real time
    for (const Memory from : {Memory::gpu(0), Memory::host()}) {
      SCOPED_TRACE(name_of(fabric) + " " + from.text());
      ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
      EXPECT_EQ(exchange(fabric, from), expected());
      EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
    }
  }
}

/// As many seeds as WEFT_TEST_STREAM_SEEDS says.
TEST_F(DynamicStreams, AreRightHoweverLateTheyAre) {
  const char* const wanted = std::getenv("WEFT_TEST_STREAM_SEEDS");
  const std::uint64_t seeds = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(2)}),
        std::vector<std::string>{});
    ASSERT_EQ(exchange(seed % 2 == 0 ? Over::tcp : Over::shm, Memory::gpu(0), seed), expected());
    ASSERT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

TEST_F(DynamicStreams, LetTheStreamGoOnWhenTheOwnerHasRead) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(sizes(Memory::host()));
    RemoteSlot remote = world.attach(0, sizes({}));
    OwnStream own(world, 0, kSent, 3);
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kSent));
    Request first = remote.put(tensor, own.get());
    slot.wait().value();
    EXPECT_OK_STATUS(first.wait());
    own.fill(0, tensor, 7);
    Request late = remote.put(tensor, own.get());
    EXPECT_OK_STATUS(late.wait_on(own.get(), Deadline::after(milliseconds(50))));
    own.synchronize();
    EXPECT_EQ(remote.put(tensor, own.get()).wait().code(), Code::timeout) << "of the late one";
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kSent, 7))
        << "it was announced, and can't be called back";
    EXPECT_OK_STATUS(late.wait());
  });
}

TEST_F(DynamicStreams, TellThatNoStreamWaitsForTheirTensors) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(sizes(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, sizes({}));
    OwnStream own(world, 0, kSent, 1);
    Request request = remote.put(tensor_of(world, {}, counted(kSent)));
    EXPECT_TRUE(tells(slot.wait_on(own.get()).status(), Code::bad_argument,
                      {"dynamic slot", "wait on the thread"}));
    Arrival arrival = slot.wait().value();
    EXPECT_EQ(arrival.release(own.get()).code(), Code::bad_argument);
    EXPECT_TRUE(arrival) << "it is still held";
  });
}

TEST_F(DynamicStreams, MakeRoomBeforeAStreamWaits) {
  // Each tensor is larger than what is left of a pinned chunk.
  constexpr std::int64_t kLarge = 700'000;
  run_on(1, settings().with(Setting::log, "off").with(Setting::arena_chunk, "2m"),
         [&](World& world) {
           Slot slot = world.expose(sizes(Memory::host(), 4));
           RemoteSlot remote = world.attach(0, sizes({}, 4));
           OwnStream own(world, 0, kSent, 1);
           const Tensor tensor = world.allocate(DType::f32, {kLarge}, Memory::gpu(0));
           std::vector<Request> requests;
           for (int i = 0; i < 3; ++i) {
             requests.push_back(remote.put(tensor, own.get()));
             EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
           }
           for (int i = 0; i < 3; ++i) EXPECT_EQ(slot.wait().value().tensor().shape()[0], kLarge);
           for (Request& request : requests) EXPECT_OK_STATUS(request.wait());
         });
}

TEST_F(DynamicStreams, GatherSeveralTensorsBehindAStream) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;
    for (const Memory to : {Memory::gpu(0), Memory::host()}) {
      for (const Memory second : {Memory::gpu(0), Memory::host()}) {
        SCOPED_TRACE(name_of(fabric) + " to " + to.text() + ", second part in " + second.text());
        ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
        run_over(fabric, [&](World& world) {
          const SlotSpec spec{.name = "in", .shape = {2 * kSent}, .depth = 2, .memory = to};
          if (world.rank() == 0) {
            Slot slot = world.expose(spec);
            slot.wait().value();
            meet(world, "prepared");
            for (std::size_t turn = 0; turn < kTimes; ++turn) {
              auto wanted = counted(kSent, static_cast<float>(turn));
              const auto behind = counted(kSent, static_cast<float>(100 + turn));
              wanted.insert(wanted.end(), behind.begin(), behind.end());
              const Arrival arrival = slot.wait().value();
              meet(world, "came" + std::to_string(turn));
              EXPECT_EQ(elements_of(world, arrival.tensor()), wanted);
              meet(world, "seen" + std::to_string(turn));
            }
          } else {
            const std::array parts{world.allocate(DType::f32, {kSent}, Memory::gpu(0)),
                                   world.allocate(DType::f32, {kSent}, second)};
            RemoteSlot remote = world.attach(0, spec);
            OwnStream own(world, 0, kSent, 2 * kTimes);
            remote.put(parts, own.get()).wait().or_throw();
            meet(world, "prepared");
            for (std::size_t turn = 0; turn < kTimes; ++turn) {
              own.fill(2 * turn, parts[0], static_cast<float>(turn));
              own.fill(2 * turn + 1, parts[1], static_cast<float>(100 + turn));
              Request request = remote.put(parts, own.get());
              EXPECT_OK_STATUS(request.wait_on(own.get()));
              own.synchronize();
              meet(world, "came" + std::to_string(turn));
              meet(world, "seen" + std::to_string(turn));
            }
          }
          meet(world);
        });
        EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
      }
    }
  }
}

TEST_F(DynamicStreams, RefuseTensorsThatDoNotGoTogether) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    const SlotSpec spec{.name = "two", .shape = {2 * kSent}, .memory = Memory::gpu(0)};
    Slot slot = world.expose(spec);
    Slot dynamic = world.expose(sizes({}));
    RemoteSlot remote = world.attach(0, spec);
    RemoteSlot other = world.attach(0, sizes({}));
    OwnStream own(world, 0, kSent, 1);
    const Tensor here = world.allocate(DType::f32, {kSent}, Memory::gpu(0));
    const Tensor there = world.allocate(DType::f32, {kSent}, Memory::gpu(1));
    const auto put = [&](RemoteSlot& to, std::vector<Tensor> parts, Stream stream) {
      return to.put(parts, stream).wait();
    };
    EXPECT_EQ(put(remote, {here}, own.get()).code(), Code::mismatch);
    EXPECT_EQ(put(remote, {}, own.get()).code(), Code::mismatch);
    EXPECT_TRUE(tells(put(remote, {here, there}, own.get()), Code::bad_argument, {"GPU 1"}));
    EXPECT_TRUE(tells(put(remote, {there, there}, own.get()), Code::bad_argument,
                      {"the stream is of GPU 0"}));
    EXPECT_TRUE(tells(put(other, {here, here}, own.get()), Code::bad_argument,
                      {"several tensors have no one shape"}));
    EXPECT_OK_STATUS(put(remote, {here, here}, own.get()));
    slot.wait().value();
    EXPECT_OK_STATUS(put(remote, {here, here}, Stream()));
  });
}

}  // namespace
}  // namespace weft::tests
