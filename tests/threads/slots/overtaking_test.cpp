// A rank's request to another does not wait behind a large tensor on its way there.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

/// An odd size, so that no part of the transfer ends where a tensor ends.
constexpr std::int64_t kFirst = (96 << 20) + 12345;
constexpr std::int64_t kSecond = 96 << 20;
constexpr int kTries = 5;

SlotSpec late_slot(int number) {
  return {.name = "late" + std::to_string(number), .dtype = DType::u8, .shape = {8}, .depth = 1};
}

TEST(Overtaking, AnAttachIsAnsweredWhileALargePutIsOnItsWay) {
  Meeting meeting(2);
  const SlotSpec large{
      .name = "large", .dtype = DType::u8, .shape = {kFirst + kSecond}, .depth = 1};
  run_pair(
      [&](World& world) {
        std::vector<Slot> late;
        for (int number = 0; number < kTries; ++number)
          late.push_back(world.expose(late_slot(number)));
        Slot slot = world.expose(large);
        for (std::uint64_t n = 1; n <= kTries; ++n) {
          meeting.wait();  // the slot takes this put at once
          const auto arrival = slot.wait().value();
          EXPECT_TRUE(holds(arrival.tensor().part(0, {kFirst}), pattern_of(1, 0, n)));
          EXPECT_TRUE(holds(arrival.tensor().part(kFirst, {kSecond}), pattern_of(1, 1, n)));
        }
      },
      [&](World& world) {
        RemoteSlot remote = world.attach(0, large);
        const std::vector<Tensor> parts = {world.allocate(DType::u8, {kFirst}),
                                           world.allocate(DType::u8, {kSecond})};
        std::vector<RemoteSlot> late;
        int first = 0;  // how often the attach came first
        for (int n = 1; n <= kTries; ++n) {
          for (const std::uint64_t part : {0, 1})
            fill(parts[part], pattern_of(1, part, static_cast<std::uint64_t>(n)));
          meeting.wait();
          // put() itself may write for a long time, so another thread attaches.
          std::latch put_begins(1);
          std::atomic<bool> put_has_ended = false;
          std::jthread putter([&] {
            put_begins.count_down();
            EXPECT_TRUE(remote.put(parts).wait().ok());
            put_has_ended = true;
          });
          put_begins.wait();
          late.push_back(world.attach(0, late_slot(n - 1)));
          first += put_has_ended ? 0 : 1;
        }
        EXPECT_GT(first, 0) << "each attach waited until all of the tensor had gone";
      },
      settings().with(Setting::fabric, "tcp"));
}

}  // namespace
}  // namespace weft::tests
