// The work requests that weft posts to NICs, and their order.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "tests/threads/verbs/nics.hpp"
#include "tests/unit/verbs/recording_verbs.hpp"

namespace weft::tests {
namespace {

using p2p::verbs::RecordingVerbs;
using p2p::verbs::Verbs;

/// Once told to stall, completes no work request until the next one is posted, as rdma_rxe does at
/// times after packet loss.
class Stalling final : public RecordingVerbs {
 public:
  Stalling(std::shared_ptr<Verbs> below, FakeNetwork& network, int rank)
      : RecordingVerbs(std::move(below)), network_(network), rank_(rank) {}

  void stall() {
    network_.hold(rank_);
    asked_ = 0;
  }
  int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept override {
    const int error = RecordingVerbs::post_send(qp, requests, bad);
    if (asked_.fetch_add(1) == 1) network_.hold(rank_, false);
    return error;
  }

 private:
  FakeNetwork& network_;
  const int rank_;
  std::atomic<int> asked_{2};
};

TEST(AStalledDriver, IsSetGoingAgainByARequestMore) {
  const SlotSpec spec{.name = "in", .dtype = DType::f32, .shape = {3000}, .depth = 2};
  Meeting meeting(2);
  NicJob job;
  std::shared_ptr<Stalling> stalling;
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          Slot slot = world.expose(spec);
          for (int n = 0; n < 2; ++n) EXPECT_TRUE(slot.wait().ok());
          meeting.wait();
          return;
        }
        RemoteSlot remote = world.attach(0, spec);
        const Tensor tensor = world.allocate(spec.dtype, spec.shape);
        remote.put(tensor, Until::delivered).wait().or_throw();
        stalling->stall();
        EXPECT_EQ(remote.put(tensor, Until::delivered).wait().text(), "ok");
        meeting.wait();
      },
      verbs_settings(),
      [&](int rank) -> std::shared_ptr<Verbs> {
        auto below = job.network.device(rank);
        if (rank == 0) return below;
        return stalling = std::make_shared<Stalling>(std::move(below), job.network, rank);
      });
  job.expect_clean();
}

/// Records the number of RDMA reads in each post_send call, and counts fenced requests.
class Reads final : public RecordingVerbs {
 public:
  using RecordingVerbs::RecordingVerbs;
  int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept override {
    int reads = 0;
    for (const ibv_send_wr* work = requests; work != nullptr; work = work->next) {
      reads += work->opcode == IBV_WR_RDMA_READ ? 1 : 0;
      fenced += (work->send_flags & IBV_SEND_FENCE) != 0U ? 1 : 0;
    }
    if (reads != 0) calls.push_back(reads);
    return RecordingVerbs::post_send(qp, requests, bad);
  }
  std::vector<int> calls;
  int fenced = 0;
};

TEST(AGet, ReadsWhatProvesItWholeOnceTheRestIsThereAndWithoutAFence) {
  const PublishedSpec spec{.name = "out", .dtype = DType::f32, .shape = {3000}, .depth = 2};
  Meeting meeting(2);
  NicJob job;
  std::shared_ptr<Reads> reads;
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          PublishedSlot slot = world.expose_published(spec);
          fill(slot.next().value(), pattern_of(0, 1, 1));
          slot.publish().or_throw();
          meeting.wait();
          meeting.wait();
          return;
        }
        PublishedReader remote = world.attach_published(0, spec);
        meeting.wait();
        const Tensor into = world.allocate(spec.dtype, spec.shape);
        reads->calls.clear();
        remote.get(into).or_throw();
        EXPECT_TRUE(holds(into, pattern_of(0, 1, 1)));
        ASSERT_GE(reads->calls.size(), 2U);
        EXPECT_EQ(reads->calls.back(), 1);
        EXPECT_EQ(reads->fenced, 0) << "rdma_rxe never sends a fenced READ again";
        meeting.wait();
      },
      verbs_settings(),
      [&](int rank) -> std::shared_ptr<Verbs> {
        auto below = job.network.device(rank);
        if (rank == 0) return below;
        return reads = std::make_shared<Reads>(std::move(below));
      });
  job.expect_clean();
}

/// Counts the post_recv calls, and those right after a poll that found a completion: between an
/// arrival and its answer.
class Receives final : public RecordingVerbs {
 public:
  using RecordingVerbs::RecordingVerbs;
  int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) noexcept override {
    const int count = RecordingVerbs::poll_cq(cq, most, completions);
    came_ = count > 0;
    return count;
  }
  int post_recv(ibv_qp* qp, ibv_recv_wr* receives, ibv_recv_wr** bad) noexcept override {
    ++calls;
    if (came_) ++hasty;
    return RecordingVerbs::post_recv(qp, receives, bad);
  }
  std::atomic<int> calls{0};
  std::atomic<int> hasty{0};

 private:
  std::atomic<bool> came_{false};
};

TEST(APingPong, PostsReceivesAgainOnlyWhenNothingHasCome) {
  const SlotSpec spec{.name = "in", .dtype = DType::i64, .shape = {1}, .depth = 8};
  constexpr int kRounds = 300;
  Meeting meeting(2);
  NicJob job;
  std::vector<std::shared_ptr<Receives>> receives(2);
  run_ranks(
      2,
      [&](World& world) {
        Slot slot = world.expose(spec);
        RemoteSlot remote = world.attach(1 - world.rank(), spec);
        const Tensor tensor = world.allocate(spec.dtype, spec.shape);
        for (int n = 0; n < kRounds; ++n) {
          if (world.rank() == 1) slot.wait().value().release();
          remote.put(tensor).wait().or_throw();
          if (world.rank() == 0) slot.wait().value().release();
        }
        meeting.wait();
        const Receives& mine = *receives[static_cast<std::size_t>(world.rank())];
        EXPECT_GT(mine.calls, kRounds / 16) << "they are posted again";
        EXPECT_EQ(mine.hasty, 0);
        meeting.wait();
      },
      verbs_settings(),
      [&](int rank) {
        return receives[static_cast<std::size_t>(rank)] =
                   std::make_shared<Receives>(job.network.device(rank));
      });
  job.expect_clean();
}

}  // namespace
}  // namespace weft::tests
