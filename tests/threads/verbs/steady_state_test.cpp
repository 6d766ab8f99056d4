// The steady state costs one work request per transfer and nothing else: no message, no
// registration, no copy, no allocation.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "p2p/slot/attach/slot_messages.hpp"
#include "tests/threads/verbs/allocation_count.hpp"
#include "tests/threads/verbs/nics.hpp"
#include "tests/threads/verbs/passed_over_nic.hpp"

namespace weft::tests {
namespace {

using PassedOver = PassedOverNic<PassOverAllocations>;

struct Usage {
  std::string name;
  std::int64_t elements = 0;
  std::string notify_mode = "auto";
  std::string pairs = "1";
  std::uint64_t requests = 1;  ///< of one transfer
};

/// How GoogleTest prints a usage.
inline void PrintTo(const Usage& usage, std::ostream* out) { *out << usage.name; }

class SteadyState : public testing::TestWithParam<Usage> {};

TEST_P(SteadyState, CostsItsWorkRequestsAlone) {
  const Usage& usage = GetParam();
  const SlotSpec spec{.name = "in", .dtype = DType::f32, .shape = {usage.elements}, .depth = 4};
#if defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kWarm = 40;  // over seconds, peers send heartbeats
  constexpr std::uint64_t kTensors = 60;
#else
  constexpr std::uint64_t kWarm = 200;
  constexpr std::uint64_t kTensors = 300;
#endif
  Meeting meeting(2);
  std::atomic<std::uint64_t> asked{0};
  std::atomic<std::uint64_t> messages{0};  // that both ranks have sent
  NicJob job;
  run_ranks(
      2,
      [&](World& world) {
        const bool owner = world.rank() == 0;
        Slot slot;
        RemoteSlot remote;
        Tensor tensor;
        if (owner) {
          slot = world.expose(spec);
        } else {
          remote = world.attach(0, spec);
          tensor = world.allocate(spec.dtype, spec.shape);
        }
        const auto step = [&] {
          if (owner)
            slot.wait().value().release();
          else
            remote.put(tensor).wait().or_throw();
        };
        // The first put that must wait allocates the queue of pending puts, so post one more put
        // than there are buffers, before the owner reads any.
        std::vector<Request> crowd;
        if (!owner)
          for (std::uint32_t n = 0; n <= spec.depth; ++n) crowd.push_back(remote.put(tensor));
        meeting.wait();
        if (owner)
          for (std::uint32_t n = 0; n <= spec.depth; ++n) slot.wait().value().release();
        for (Request& put : crowd) put.wait().or_throw();
        for (std::uint64_t n = 0; n < kWarm; ++n) step();
        // Small tensors are faster than the progress threads' last messages about the attach. Wait
        // for a round in which no rank sends a message; earlier messages are taken while waiting.
        for (std::uint64_t said = ~std::uint64_t{0}, now = 0; said != now;) {
          said = now;
          for (int n = 0; n < 3; ++n) step();
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          meeting.wait();
          messages += all_counters(world).control_messages;
          meeting.wait();
          now = 1 + messages;
          meeting.wait();
          if (owner) messages = 0;
        }
        meeting.wait();
        const TransferCounters before = all_counters(world);
        const NicCounts nic = job.network.counts(world.rank());
        meeting.wait();
        const std::uint64_t allocated = allocations();
        ASSERT_GT(allocated, 0U) << "joining allocates: they are counted";
        const auto began = std::chrono::steady_clock::now();
        for (std::uint64_t n = 0; n < kTensors; ++n) step();
        const std::uint64_t allocations_now = allocations();
        meeting.wait();
        // A writer sends a message only if the machine has held it up long enough: it asks for
        // credits.
        const auto asked_at_most =
            static_cast<std::uint64_t>((std::chrono::steady_clock::now() - began) / p2p::kHeldUp);
        const TransferCounters cost = all_counters(world) - before;
        const NicCounts used = job.network.counts(world.rank());
        if (!owner) asked = cost.control_messages;
        meeting.wait();
        // The waiting thread handles a message that is taken while a rank waits.
        if (asked == 0) {
          EXPECT_EQ(allocations_now - allocated, 0U) << "allocations of rank " << world.rank();
        }
        EXPECT_EQ(cost.transfers, kTensors);
        EXPECT_EQ(cost.work_requests, owner ? 0U : kTensors * usage.requests);
        EXPECT_EQ(cost.bytes_copied, 0U);
        EXPECT_LE(cost.control_messages, owner ? 0U : asked_at_most);
        EXPECT_EQ(cost.registrations, 0U);
        EXPECT_LE(cost.credit_writes, kTensors / 2 + 1 + asked_at_most);
        EXPECT_EQ(used.of(VerbsCall::reg_mr), nic.of(VerbsCall::reg_mr));
        if (usage.notify_mode != "send") {
          EXPECT_EQ(used.sends - nic.sends, cost.control_messages);
        }
        meeting.wait();
      },
      verbs_settings()
          .with(Setting::notify, usage.notify_mode)
          .with(Setting::qps_per_peer, usage.pairs),
      [&](int rank) { return std::make_shared<PassedOver>(job.network.device(rank)); });
  job.expect_clean();
}

INSTANTIATE_TEST_SUITE_P(
    Of, SteadyState,
    testing::Values(Usage{.name = "inline_tensors", .elements = 4},
                    Usage{.name = "tensors", .elements = 5000},
                    Usage{.name = "tensors_by_2_pairs", .elements = 5000, .pairs = "2"},
                    Usage{.name = "counted", .elements = 5000, .notify_mode = "counted"},
                    Usage{.name = "send", .elements = 5000, .notify_mode = "send"},
                    Usage{.name = "stripes", .elements = 300'000, .pairs = "4", .requests = 4}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::tests
