// A writer never overtakes its reader: puts without a credit wait, in order and bounded.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/stats.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

SlotSpec spec_of_depth(std::uint32_t depth) {
  return {.name = "edge", .dtype = DType::u8, .shape = {1000}, .depth = depth};
}

/// Pending puts borrow their tensors, so each put has its own. Tensor i holds the pattern of
/// sequence number i + 1.
std::vector<Tensor> filled_tensors(World& world, const SlotSpec& spec, std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    tensors.push_back(world.allocate(spec.dtype, spec.shape));
    fill(tensors.back(), pattern_of(world.rank(), 0, i + 1));
  }
  return tensors;
}

std::vector<Request> put_all(RemoteSlot& remote, const std::vector<Tensor>& tensors) {
  std::vector<Request> requests;
  for (const auto& tensor : tensors) requests.push_back(remote.put(tensor));
  return requests;
}

/// Waits for the next arrival, which must be number `n` of rank 1.
Arrival expect_next(Slot& slot, std::uint64_t n) {
  auto arrival = slot.wait().value();
  EXPECT_EQ(arrival.sequence(), n);
  EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, n))) << "tensor " << n;
  return arrival;
}

TEST(Credits, PendingPutsCompleteWhileTheWriterDoesNothing) {
  const auto spec = spec_of_depth(2);
  Meeting meeting(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        meeting.wait();
        for (std::uint64_t n = 1; n <= 10; ++n) expect_next(slot, n);
        meeting.wait();
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensors = filled_tensors(world, spec, 10);
        auto requests = put_all(remote, tensors);
        for (std::size_t i = 0; i < requests.size(); ++i)
          EXPECT_EQ(requests[i].test(), i < spec.depth) << "put " << i + 1;
        meeting.wait();
        meeting.wait();
        for (auto& request : requests) {
          EXPECT_TRUE(request.test());
          EXPECT_TRUE(request.wait().ok());
        }
      });
}

TEST(Credits, The65thPendingPutIsExhaustedAndNothingIsLost) {
  const auto spec = spec_of_depth(1);
  constexpr std::size_t kAccepted = 1 + 64;
  Meeting meeting(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        meeting.wait();
        for (std::uint64_t n = 1; n <= kAccepted + 1; ++n) expect_next(slot, n);
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensors = filled_tensors(world, spec, kAccepted + 1);
        auto requests = put_all(remote, tensors);
        auto& refused = requests.back();
        EXPECT_TRUE(refused.test());
        const auto status = refused.wait(Deadline::after(milliseconds(0)));
        EXPECT_TRUE(tells(status, Code::exhausted, {"64", "edge"}));
        meeting.wait();
        for (std::size_t i = 0; i < kAccepted; ++i) EXPECT_TRUE(requests[i].wait().ok());
        EXPECT_TRUE(remote.put(tensors.back()).wait().ok());
      });
}

TEST(Credits, ACancelledPutIsNeverSeenAndTheOthersKeepTheirOrder) {
  const auto spec = spec_of_depth(1);
  Meeting meeting(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        meeting.wait();
        for (const std::uint64_t put : {1U, 2U, 4U}) {
          const auto arrival = slot.wait().value();
          EXPECT_EQ(arrival.sequence(), std::min<std::uint64_t>(put, 3));
          EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, put))) << "put " << put;
        }
        EXPECT_EQ(slot.wait(Deadline::after(milliseconds(50))).code(), Code::timeout);
        meeting.wait();
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensors = filled_tensors(world, spec, 4);
        auto requests = put_all(remote, tensors);
        (void)requests[2].cancel();
        EXPECT_TRUE(requests[2].test());
        EXPECT_EQ(requests[2].wait().code(), Code::cancelled);
        (void)requests[0].cancel();
        EXPECT_TRUE(requests[0].wait().ok()) << "a put that has ended stays as it is";
        meeting.wait();
        EXPECT_TRUE(requests[1].wait().ok());
        EXPECT_TRUE(requests[3].wait().ok());
        meeting.wait();
      });
}

/// Otherwise the thread that moves the put, perhaps the progress thread, would serve nothing else
/// until all of it has been copied.
TEST(Credits, ALargePutThatWaitedCanBeCancelledHalfway) {
  const SlotSpec spec{.name = "in", .dtype = DType::u8, .shape = {(80 << 20) + 5}, .depth = 1};
  Meeting meeting(2);
  std::atomic<bool> cancelled{false};
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        while (!cancelled) {
          meeting.wait();
          slot.wait().value().release();
          meeting.wait();
          meeting.wait();
        }
        EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, 2)));
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensor = world.allocate(spec.dtype, spec.shape);
        fill(tensor, pattern_of(1, 0, 1));
        EXPECT_TRUE(remote.put(tensor).wait().ok());
        // The progress thread may complete the put sooner.
        for (int i = 0; i < 100 && !cancelled; ++i) {
          auto waits = remote.put(tensor);
          meeting.wait();
          meeting.wait();
          (void)waits.test();
          (void)waits.cancel();
          cancelled = waits.wait().code() == Code::cancelled;
          meeting.wait();
        }
        EXPECT_TRUE(cancelled);
        fill(tensor, pattern_of(1, 0, 2));
        EXPECT_TRUE(remote.put(tensor).wait().ok());
      },
      settings().with(Setting::arena_chunk, "256m"));
}

TEST(Credits, DeliveredMeansThatTheOwnerCanSeeTheTensor) {
  const auto spec = spec_of_depth(2);
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    Slot slot;
    RemoteSlot remote;
    if (world.rank() == 0)
      slot = world.expose(spec);
    else
      remote = world.attach(0, spec);
    const auto tensor = world.allocate(spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= 20; ++n) {
      if (world.rank() == 1) {
        fill(tensor, pattern_of(1, 0, n));
        EXPECT_TRUE(remote.put(tensor, Until::delivered).wait().ok());
      }
      meeting.wait();
      if (world.rank() == 0) {
        EXPECT_TRUE(slot.ready());
        expect_next(slot, n);
      }
    }
  });
}

TEST(Credits, ATimeoutNamesTheSlotAndThePeerAndLeavesThePutAlive) {
  const auto spec = spec_of_depth(1);
  Meeting meeting(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        meeting.wait();
        for (std::uint64_t n = 1; n <= 2; ++n) expect_next(slot, n);
        const auto status = slot.wait(Deadline::after(milliseconds(50))).status();
        EXPECT_EQ(status.code(), Code::timeout);
        EXPECT_EQ(status.detail().slot, "edge");
        EXPECT_EQ(status.detail().peer, 1);
        EXPECT_EQ(status.detail().sequence_expected, 3U);
        EXPECT_EQ(status.detail().sequence_seen, 2U);
        EXPECT_TRUE(contains(status.text(), "edge")) << status.text();
        EXPECT_TRUE(contains(status.text(), "rank 1")) << status.text();
        meeting.wait();
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensors = filled_tensors(world, spec, 2);
        auto requests = put_all(remote, tensors);
        const auto status = requests[1].wait(Deadline::after(milliseconds(50)));
        EXPECT_TRUE(tells(status, Code::timeout, {"edge", "rank 0"}));
        EXPECT_FALSE(requests[1].test());
        meeting.wait();
        EXPECT_TRUE(requests[1].wait().ok());
        meeting.wait();
      });
}

constexpr milliseconds kHeldUp{10};

class CreditsDepth : public testing::TestWithParam<std::uint32_t> {};

TEST_P(CreditsDepth, CostsAtMostOneCreditWritePerHalfDepth) {
  const auto spec = spec_of_depth(GetParam());
  constexpr std::uint64_t kTensors = 100;
  run_owner_and_writer(
      spec,
      [&](World& world, Slot& slot) {
        const auto start = Deadline::Clock::now();
        for (std::uint64_t n = 1; n <= kTensors; ++n) expect_next(slot, n);
        const auto counters = edge_counters(world, "edge", Role::receives);
        EXPECT_EQ(counters.transfers, kTensors);
        // A writer that a busy machine holds up for 10 ms asks, and gets one more credit.
        const auto held_up = static_cast<std::uint64_t>((Deadline::Clock::now() - start) / kHeldUp);
        EXPECT_LE(counters.credit_writes, kTensors / ((spec.depth + 1) / 2) + held_up);
        EXPECT_GE(counters.credit_writes, (kTensors - spec.depth) / spec.depth);
      },
      [&](World& world, RemoteSlot& remote) {
        for (const auto& tensor : filled_tensors(world, spec, kTensors))
          remote.put(tensor).wait().or_throw();
      });
}

/// The reader keeps all buffers but one for itself, always, and still gets the next tensor.
TEST_P(CreditsDepth, AReaderThatHoldsArrivalsGetsTheNextOne) {
  const auto spec = spec_of_depth(GetParam());
  constexpr std::uint64_t kTensors = 30;
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        std::map<std::uint64_t, Arrival> held;
        for (std::uint64_t n = 1; n <= kTensors; ++n) {
          held[n] = expect_next(slot, n);
          if (n >= spec.depth) held.erase(held.begin());
          for (const auto& [sequence, arrival] : held)
            EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, sequence)))
                << sequence << " was overwritten while it was held";
        }
      },
      [&](World& world, RemoteSlot& remote) {
        for (const auto& tensor : filled_tensors(world, spec, kTensors))
          remote.put(tensor).wait().or_throw();
      });
}

INSTANTIATE_TEST_SUITE_P(Slots, CreditsDepth, testing::Values(1, 2, 3, 4, 7),
                         testing::PrintToStringParamName());

TEST(Credits, ArrivalsMayBeReleasedInAnyOrder) {
  const auto spec = spec_of_depth(4);
  constexpr std::uint64_t kRounds = 10;
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        for (std::uint64_t round = 0; round < kRounds; ++round) {
          std::map<std::uint64_t, Arrival> held;
          for (std::uint64_t i = 1; i <= 4; ++i) {
            const auto n = 4 * round + i;
            held[n] = expect_next(slot, n);
          }
          for (const std::uint64_t i : {3U, 1U, 4U, 2U}) {
            held.erase(4 * round + i);
            for (const auto& [sequence, arrival] : held)
              EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, sequence)));
          }
        }
      },
      [&](World& world, RemoteSlot& remote) {
        for (const auto& tensor : filled_tensors(world, spec, 4 * kRounds))
          remote.put(tensor).wait().or_throw();
      });
}

TEST(Credits, AMovedArrivalGivesItsBufferBackOnce) {
  const auto spec = spec_of_depth(1);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        for (std::uint64_t n = 1; n <= 10; ++n) {
          auto first = expect_next(slot, n);
          auto second = std::move(first);
          first.release();  // NOLINT(bugprone-use-after-move): holds nothing any more
          EXPECT_TRUE(holds(second.tensor(), pattern_of(1, 0, n)));
          EXPECT_FALSE(slot.ready()) << "the only buffer is still held";
          second.release();
          second.release();
        }
      },
      [&](World& world, RemoteSlot& remote) {
        for (const auto& tensor : filled_tensors(world, spec, 10))
          remote.put(tensor).wait().or_throw();
      });
}

/// Tools number a put that waits for a credit as its tensor is numbered, whatever its ticket is.
TEST(Credits, APutThatWaitsIsShownByTheNumberOfItsTensor) {
  const SlotSpec spec{.name = "in", .dtype = DType::f32, .shape = {4}, .depth = 2};
  Meeting meeting(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        (void)slot.wait().value();
        (void)slot.wait().value();
        (void)slot.wait().value();
        meeting.wait();
        meeting.wait();
        for (int i = 0; i < 3; ++i) (void)slot.wait().value();
      },
      [&](World& world, RemoteSlot& remote) {
        const Tensor tensor = world.allocate(DType::f32, {4});
        for (int i = 0; i < 3; ++i) remote.put(tensor).wait().or_throw();
        meeting.wait();
        remote.put(tensor).wait().or_throw();
        remote.put(tensor).wait().or_throw();
        Request sixth = remote.put(tensor);
        std::thread waits([&] {
          EXPECT_EQ(sixth.wait(Deadline::after(std::chrono::milliseconds(500))).code(),
                    Code::timeout);
        });
        std::uint64_t shown = 0;
        EXPECT_TRUE(soon([&] {
          for (const auto& wait : stats_of_rank(1).waits())
            if (wait.about.operation == stats::Operation::put) shown = wait.about.sequence;
          return shown != 0;
        }));
        EXPECT_EQ(shown, 6U);
        waits.join();
        meeting.wait();
        sixth.wait().or_throw();
      });
}

}  // namespace
}  // namespace weft::tests
