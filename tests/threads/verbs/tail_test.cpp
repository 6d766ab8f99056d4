// WEFT_NOTIFY=tail: tensor and sequence word are one RDMA write, which raises no completion at the
// owner.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "p2p/transport/verbs/fake/fake_network.hpp"
#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using p2p::verbs::fake::FakeNetwork;
using p2p::verbs::fake::FaultPlan;
using p2p::verbs::fake::NicCounts;
using p2p::verbs::fake::NicSpec;
using std::chrono::milliseconds;

constexpr std::uint32_t kDepth = 64;  ///< puts that need no credit
constexpr std::uint64_t kPuts = 10;

Config by_tail() {
  return settings()
      .with(Setting::fabric, "verbs")
      .with(Setting::notify, "tail")
      .with(Setting::log, "off");
}

SlotSpec bytes_of(std::int64_t bytes, std::uint32_t depth = kDepth) {
  return {.name = "tails", .dtype = DType::u8, .shape = {bytes}, .depth = depth};
}

/// The writer NIC's counters for `kPuts` puts of rank 1 into a slot of rank 0; `expose` makes the
/// slot.
struct Traffic {
  NicCounts sent;
  std::uint64_t owner_completions = 0;  ///< by receives, too
  std::uint64_t torn = 0;
};

Traffic traffic(const SlotSpec& spec, const std::function<Slot(World&)>& expose,
                const NicSpec& nic = {}) {
  FakeNetwork network({.seed = 5});
  Meeting meeting(2);
  Traffic seen;
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = expose(world);
          meeting.wait();
          for (std::uint64_t n = 1; n <= kPuts; ++n) {
            const auto arrival = slot.wait().value();
            if (!holds(arrival.tensor(), pattern_of(1, 0, n))) ++seen.torn;
          }
          meeting.wait();
          return;
        }
        auto remote = world.attach(0, spec);
        const auto tensor = world.allocate(spec.dtype, spec.shape);
        meeting.wait();
        std::this_thread::sleep_for(milliseconds(20));  // the messages of the attach are over
        const NicCounts before = network.counts(1);
        const std::uint64_t owner = network.counts(0).completions;
        for (std::uint64_t n = 1; n <= kPuts; ++n) {
          fill(tensor, pattern_of(1, 0, n));
          remote.put(tensor).wait().or_throw();
        }
        const NicCounts after = network.counts(1);
        seen.sent.writes = after.writes - before.writes;
        seen.sent.writes_with_immediate =
            after.writes_with_immediate - before.writes_with_immediate;
        seen.sent.sends = after.sends - before.sends;
        seen.owner_completions = network.counts(0).completions - owner;
        meeting.wait();
      },
      by_tail(), [&](int rank) { return network.device(rank, nic); });
  EXPECT_EQ(network.complaints() + network.left_behind(), "");
  return seen;
}

class TailSize : public testing::TestWithParam<std::int64_t> {};

TEST_P(TailSize, IsOneWriteAndNothingElse) {
  const auto spec = bytes_of(GetParam());
  const auto seen = traffic(spec, [&](World& world) { return world.expose(spec); });
  EXPECT_EQ(seen.torn, 0U);
  EXPECT_EQ(seen.sent.writes_with_immediate, 0U);
  EXPECT_EQ(seen.sent.sends, 0U);
  EXPECT_EQ(seen.sent.writes, kPuts);
  EXPECT_EQ(seen.owner_completions, 0U);
}

INSTANTIATE_TEST_SUITE_P(Bytes, TailSize,
                         testing::Values(1, 8, 49, 56, 57, 64, 100, 127, 128, 4096, 100'001));

TEST(Tail, IsNotForMemoryThatWasGiven) {
  const auto spec = bytes_of(4096);
  const auto seen = traffic(spec, [&](World& world) {
    const auto memory = world.allocate(spec.dtype, {kDepth, spec.shape[0]});
    return world.expose(spec, memory);
  });
  EXPECT_EQ(seen.torn, 0U);
  EXPECT_EQ(seen.sent.writes_with_immediate, kPuts);
}

TEST(Tail, OfATensorThatLandsInPiecesIsNoProof) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  const auto spec = bytes_of(100'000);
  const NicSpec nic{.faults = FaultPlan{.scattered = 1}};
  const auto seen = traffic(
      spec, [&](World& world) { return world.expose(spec); }, nic);
  EXPECT_GT(seen.torn, 0U) << "a NIC out of order must be noticed here";
}

TEST(Tail, WakesWhoSleepsAndWhoPolls) {
  FakeNetwork network({.seed = 6});
  Meeting meeting(2);
  const auto spec = bytes_of(200, 4);
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose(spec);
          EXPECT_TRUE(slot.wait().ok());
          pollfd event{.fd = world.event_fd(), .events = POLLIN, .revents = 0};
          meeting.wait();
          for (int n = 0; n < 5; ++n) {
            world.clear_event();
            while (!slot.ready()) {
              ASSERT_EQ(poll(&event, 1, 10'000), 1) << "no event came with tensor " << n;
              world.clear_event();
            }
            EXPECT_TRUE(slot.wait().ok());
          }
          meeting.wait();
          return;
        }
        std::this_thread::sleep_for(milliseconds(30));  // the owner sleeps by then
        auto remote = world.attach(0, spec);
        const auto tensor = world.allocate(spec.dtype, spec.shape);
        std::this_thread::sleep_for(milliseconds(30));
        remote.put(tensor).wait().or_throw();
        meeting.wait();
        for (int n = 0; n < 5; ++n) {
          std::this_thread::sleep_for(milliseconds(10));
          remote.put(tensor).wait().or_throw();
        }
        meeting.wait();
      },
      by_tail(), [&](int rank) { return network.device(rank); });
}

class TailThenNot : public testing::TestWithParam<std::int64_t> {};

/// A put with more pieces than one request holds uses an immediate, between other puts that have
/// tails.
TEST_P(TailThenNot, KeepsTheOrder) {
  FakeNetwork network({.seed = 8});
  Meeting meeting(2);
  const std::int64_t rows = GetParam();
  const SlotSpec spec{.name = "mixed", .dtype = DType::u8, .shape = {rows, 2}, .depth = 3};
  constexpr std::uint64_t kTensors = 6000;  // more than an immediate counts
  const auto goes_in_pieces = [](std::uint64_t n) { return n % 5000 < 3; };
  std::uint64_t in_pieces = 0;
  std::uint64_t immediates = 0;
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose(spec);
          for (std::uint64_t n = 1; n <= kTensors; ++n) {
            const auto arrival = slot.wait().value();
            ASSERT_EQ(arrival.sequence(), n);
            ASSERT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, n))) << "tensor " << n;
          }
          meeting.wait();
          return;
        }
        auto remote = world.attach(0, spec);
        const auto dense = world.allocate(spec.dtype, spec.shape);
        const auto slice = world.allocate(spec.dtype, {rows, 3}).slice(1, 1, 2);
        std::this_thread::sleep_for(milliseconds(20));
        const auto before = network.counts(1).writes_with_immediate;
        for (std::uint64_t n = 1; n <= kTensors; ++n) {
          fill(dense, pattern_of(1, 0, n));
          if (!goes_in_pieces(n)) {
            remote.put(dense).wait().or_throw();
            continue;
          }
          ++in_pieces;
          for (std::int64_t row = 0; row < rows; ++row)
            std::memcpy(slice.data() + 3 * row, dense.data() + 2 * row, 2);
          remote.put(slice).wait().or_throw();
        }
        immediates = network.counts(1).writes_with_immediate - before;
        meeting.wait();
      },
      by_tail(), [&](int rank) { return network.device(rank); });
  EXPECT_EQ(immediates, in_pieces);
}

INSTANTIATE_TEST_SUITE_P(Rows, TailThenNot, testing::Values(20, 100));

/// Attaches once the previous writer has left.
RemoteSlot attach_next(World& world, const SlotSpec& spec) {
  for (;;) {
    try {
      return world.attach(0, spec);
    } catch (const Error& error) {
      if (error.code() != Code::writer_taken) throw;
    }
  }
}

TEST(Tail, WritersOfBothKindsFollowEachOther) {
  constexpr std::uint64_t kEach = 3;
  for (const std::int64_t bytes : {8, 300}) {
    FakeNetwork network({.seed = 9});
    Meeting meeting(3);
    const auto spec = bytes_of(bytes, 2 * kEach + 1);
    run_ranks(
        3,
        [&](World& world) {
          Slot slot;
          if (world.rank() == 0) slot = world.expose(spec);
          const auto tensor = world.allocate(spec.dtype, spec.shape);
          std::uint64_t n = 0;
          for (int round = 0; round < 4; ++round) {
            for (const int writer : {1, 2}) {
              meeting.wait();
              if (world.rank() != writer) continue;
              auto remote = attach_next(world, spec);
              for (std::uint64_t i = 1; i <= kEach; ++i) {
                fill(tensor, pattern_of(writer, 0, n + i));
                remote.put(tensor, Until::delivered).wait().or_throw();
              }
            }
            meeting.wait();
            // Unread tensors of both writers lie there.
            for (std::uint64_t i = 1; world.rank() == 0 && i <= 2 * kEach; ++i) {
              const auto arrival = slot.wait().value();
              EXPECT_EQ(arrival.sequence(), 2 * kEach * static_cast<std::uint64_t>(round) + i);
              const std::uint64_t written = n + (i > kEach ? i - kEach : i);
              EXPECT_TRUE(holds(arrival.tensor(), pattern_of(i > kEach ? 2 : 1, 0, written)));
            }
            n += kEach;
            meeting.wait();
          }
        },
        by_tail(),
        // The last rank's requests have no room for a word behind a tensor.
        [&](int rank) { return network.device(rank, NicSpec{.max_sges = rank == 2 ? 1 : 16}); });
  }
}

}  // namespace
}  // namespace weft::tests
