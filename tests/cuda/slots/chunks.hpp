// Shared by the tests of tensors that are staged in chunks.
#pragma once

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {

inline constexpr std::size_t kChunk = 4096;
inline constexpr std::size_t kChunks = 8;
/// Elements of that many chunks.
constexpr std::size_t in_chunks(std::size_t chunks) { return chunks * kChunk / sizeof(float); }

inline Config in_small_chunks() { return settings().with(Setting::gpu_staging, "4k"); }

inline SlotSpec spec_in_chunks(std::size_t elements, Memory memory, std::uint32_t depth = 2) {
  return {.name = "in",
          .shape = {static_cast<std::int64_t>(elements)},
          .depth = depth,
          .memory = memory};
}

/// Lets both ends do all that they can.
inline void look_at(Request& request, Slot& slot, std::optional<Arrival>& arrival) {
  const auto at_once = [] { return Deadline::after(std::chrono::nanoseconds(1)); };
  for (int i = 0; i < 5 && !arrival; ++i) {
    // The progress thread may be at the put: waiting ends after that, a test alone does not.
    if (!request.test()) (void)request.wait(at_once());
    auto got = slot.wait(at_once());
    if (got.ok()) arrival = std::move(got).value();
  }
}

/// A machine in which a copy of a chunk takes as long as a fabric takes for it, and all else no
/// time. One thread asks everything after each such time.
class ChunkTimes : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  void TearDown() override {
    if (control() != nullptr) control()->stop_clock(false);
    OnGpus::TearDown();
  }
  stand_in::Options options() const override {
    return {.pace = stand_in::Pace::lazy, .idle = std::chrono::milliseconds(0)};
  }
  /// How many such times a tensor takes from the call of put to the end of the owner's wait.
  std::size_t times(Memory from, Memory to, const Config& config) {
    std::size_t count = 0;
    toy::ToyNetwork network;
    network.paced = true;
    run_ranks(
        1,
        [&](World& world) {
          const SlotSpec spec = spec_in_chunks(in_chunks(kChunks), to);
          const Tensor first = tensor_of(world, from, counted(in_chunks(kChunks), 7));
          const Tensor second = tensor_of(world, from, counted(in_chunks(kChunks), 3));
          Slot slot = world.expose(spec);
          RemoteSlot remote = world.attach(0, spec);
          remote.put(first).wait().or_throw();
          EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                    counted(in_chunks(kChunks), 7));
          control()->stop_clock(true);
          network.stop_clock();
          Request request = remote.put(second);
          std::optional<Arrival> arrival;
          while (!arrival && count < 10 * kChunks) {
            control()->tick(kChunk);
            network.tick(kChunk);
            ++count;
            look_at(request, slot, arrival);
          }
          ASSERT_TRUE(arrival.has_value());
          control()->stop_clock(false);
          request.wait().or_throw();
          EXPECT_EQ(seen_by_application(world, arrival->tensor()), counted(in_chunks(kChunks), 3));
        },
        config, {}, network.fabrics());
    return count;
  }
};

/// Both ends of a slot in one thread, while the clocks stand.
struct SlotEnds {
  stand_in::Control& control;
  toy::ToyNetwork& network;
  World& world;
  Slot& slot;
  RemoteSlot& remote;
  Request request{};
  std::optional<Arrival> arrival{};

  /// As many chunk times pass, or fewer if the tensor is there before.
  void pass(std::size_t times) {
    for (std::size_t i = 0; i < times && !arrival; ++i) {
      control.tick(kChunk);
      network.tick(kChunk);
      look();
    }
  }
  void look() { look_at(request, slot, arrival); }
  /// The elements of the tensor that comes at last, however long the machine leaves a thread be
  /// that is at it.
  std::vector<float> elements() {
    (void)soon(
        [&] {
          pass(1);
          return arrival.has_value();
        },
        std::chrono::seconds(20));
    if (!arrival) return {};
    control.stop_clock(false);
    return seen_by_application(world, arrival->tensor());
  }
};

}  // namespace weft::tests
