// The cost of a put of 8 bytes to both ranks: work requests, doorbells, completions and locks, each
// an upper bound (docs/decisions/058-budget-of-a-put.md).
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/threads/verbs/lock_count.hpp"
#include "tests/threads/verbs/nics.hpp"
#include "tests/unit/verbs/recording_verbs.hpp"

namespace weft::tests {
namespace {

/// The NIC's own locks are not weft's.
class UncountedNic final : public p2p::verbs::RecordingVerbs {
 public:
  explicit UncountedNic(std::shared_ptr<p2p::verbs::Verbs> below)
      : RecordingVerbs(std::move(below)) {}

  int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept override {
    const PassOverLocks nic;
    return RecordingVerbs::post_send(qp, requests, bad);
  }
  int post_recv(ibv_qp* qp, ibv_recv_wr* receives, ibv_recv_wr** bad) noexcept override {
    const PassOverLocks nic;
    return RecordingVerbs::post_recv(qp, receives, bad);
  }
  int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) noexcept override {
    const PassOverLocks nic;
    return RecordingVerbs::poll_cq(cq, most, completions);
  }
  int req_notify_cq(ibv_cq* cq) noexcept override {
    const PassOverLocks nic;
    return RecordingVerbs::req_notify_cq(cq);
  }
};

/// Of one rank.
struct Cost {
  NicCounts nic;
  std::uint64_t locks = 0;
};

constexpr int kRounds = 640;
constexpr double kEach = 1.0 / kRounds;
constexpr double kSlack = 0.02;  ///< messages of the progress threads, and half-full batches

/// The costs of kRounds puts each way, one after another.
std::vector<Cost> costs_of_a_ping_pong(std::uint32_t depth) {
  const SlotSpec spec{.name = "in", .dtype = DType::i64, .shape = {1}, .depth = depth};
  Meeting meeting(2);
  NicJob job;
  std::vector<Cost> costs(2);
  run_ranks(
      2,
      [&](World& world) {
        Slot slot = world.expose(spec);
        RemoteSlot remote = world.attach(1 - world.rank(), spec);
        const Tensor tensor = world.allocate(spec.dtype, spec.shape);
        const auto round = [&] {
          if (world.rank() == 1) slot.wait().value().release();
          remote.put(tensor).wait().or_throw();
          if (world.rank() == 0) slot.wait().value().release();
        };
        for (int n = 0; n < 100; ++n) round();
        meeting.wait();
        const NicCounts nic = job.network.counts(world.rank());
        meeting.wait();
        const std::uint64_t locked = locks();
        for (int n = 0; n < kRounds; ++n) round();
        Cost& cost = costs[static_cast<std::size_t>(world.rank())];
        cost.locks = locks() - locked;
        meeting.wait();
        const NicCounts now = job.network.counts(world.rank());
        cost.nic.writes = now.writes - nic.writes;
        cost.nic.writes_with_immediate = now.writes_with_immediate - nic.writes_with_immediate;
        cost.nic.signaled = now.signaled - nic.signaled;
        for (const VerbsCall call : {VerbsCall::post_send, VerbsCall::post_recv})
          cost.nic.calls[static_cast<std::size_t>(call)] = now.of(call) - nic.of(call);
        meeting.wait();
      },
      verbs_settings().with(Setting::spin, "1s"),
      [&](int rank) { return std::make_shared<UncountedNic>(job.network.device(rank)); });
  job.expect_clean();
  return costs;
}

TEST(APutOf8Bytes, TakesNoLockWhereItArrives) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer needs the calls that are counted";
#endif
  // The queue pair's, in the put, and what goes with the completion of each sixteenth.
  for (const Cost& cost : costs_of_a_ping_pong(64))
    EXPECT_LE(static_cast<double>(cost.locks) * kEach, 1.5);
}

}  // namespace
}  // namespace weft::tests
