// The faults of a fake NIC.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "fake_rig.hpp"

namespace weft::p2p::verbs::fake {
namespace {

using std::chrono::milliseconds;

class FakeFaults : public TwoRanks {
 protected:
  /// Posts `count` signaled writes one after the other; returns their completion statuses.
  std::vector<ibv_wc_status> write_many(int count) {
    std::vector<ibv_wc_status> statuses;
    for (int i = 0; i < count; ++i) {
      if (ab_->write(static_cast<std::uint64_t>(i), a_->sge(0, 8), *b_, 0) != 0) break;
      statuses.push_back(a_->poll()->status);
    }
    return statuses;
  }
};

TEST_F(FakeFaults, NamedRequestFailsAndTheRestIsFlushed) {
  make({.faults = {.failures = {{.nth = 3, .status = IBV_WC_RESP_TIMEOUT_ERR}}}});
  EXPECT_EQ(write_many(4), (std::vector{IBV_WC_SUCCESS, IBV_WC_SUCCESS, IBV_WC_RESP_TIMEOUT_ERR,
                                        IBV_WC_WR_FLUSH_ERR}));
}

TEST_F(FakeFaults, UnsignaledRequestThatFailsCompletesToo) {
  make({.faults = {.failures = {{.nth = 2, .queue_pair = 0}}}});
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0, 0), 0);
  ASSERT_EQ(ab_->write(2, a_->sge(0, 8), *b_, 0, 0), 0);
  const auto wc = a_->poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->wr_id, 2U);
  EXPECT_EQ(wc->status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(FakeFaults, NamedCallIsRefused) {
  a_.emplace(
      network_.device(0, NicSpec{.faults = {.refusals = {{VerbsCall::reg_mr, 2, EPERM},
                                                         {VerbsCall::create_qp, 1, ENOMEM}}}}));
  EXPECT_EQ(a_->verbs->reg_mr(a_->domain.get(), a_->memory.data(), 8, kAllAccess), nullptr);
  EXPECT_EQ(errno, EPERM);
  MemoryRegion third(*a_->verbs,
                     a_->verbs->reg_mr(a_->domain.get(), a_->memory.data(), 8, kAllAccess));
  EXPECT_TRUE(third);
  EXPECT_FALSE(Pair(*a_).qp);
  EXPECT_TRUE(Pair(*a_).qp);
  EXPECT_EQ(network_.counts(0).of(VerbsCall::reg_mr), 3U);
}

TEST_F(FakeFaults, LimitsHold) {
  a_.emplace(network_.device(0, NicSpec{.max_inline = 64,
                                        .max_depth = 64,
                                        .max_queue_pairs = 1,
                                        .max_regions = 2,
                                        .max_registered = 65 << 10}));
  Verbs& verbs = *a_->verbs;
  ab_.emplace(*a_);
  EXPECT_TRUE(ab_->qp);
  EXPECT_FALSE(Pair(*a_).qp);
  EXPECT_EQ(errno, ENOMEM);
  ab_.reset();
  EXPECT_FALSE(Pair(*a_, 65).qp);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(verbs.reg_mr(a_->domain.get(), a_->memory.data(), 1025, kAllAccess), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  MemoryRegion second(verbs, verbs.reg_mr(a_->domain.get(), a_->memory.data(), 8, kAllAccess));
  EXPECT_TRUE(second);
  EXPECT_EQ(verbs.reg_mr(a_->domain.get(), a_->memory.data(), 8, kAllAccess), nullptr);
}

TEST_F(FakeFaults, IwarpHasNoImmediates) {
  make({.iwarp = true}, {.iwarp = true});
  ASSERT_EQ(ba_->receive(1), 0);
  EXPECT_EQ(ab_->send(write_request(1, *b_, 0, IBV_WR_RDMA_WRITE_WITH_IMM)), EOPNOTSUPP);
  EXPECT_EQ(ab_->send(write_request(1, *b_, 0, IBV_WR_SEND)), 0);
  EXPECT_EQ(a_->context->device->transport_type, IBV_TRANSPORT_IWARP);
}

TEST_F(FakeFaults, ChancesComeFromTheSeed) {
  const auto outcomes = [](std::uint64_t seed) {
    FakeNetwork network({.seed = seed});
    Side a(network.device(0, FaultPlan{.failed = 0.2, .failed_with = IBV_WC_REM_OP_ERR}));
    Side b(network.device(1));
    std::vector<ibv_wc_status> statuses;
    for (int i = 0; i < 8; ++i) {
      const Pair ab(a);
      const Pair ba(b);
      connect(ab, ba);
      for (int k = 0; k < 8; ++k) {
        EXPECT_EQ(ab.write(1, a.sge(0, 8), b, 0), 0);
        statuses.push_back(a.poll()->status);
      }
    }
    return statuses;
  };
  EXPECT_EQ(outcomes(3), outcomes(3));
  EXPECT_NE(outcomes(3), outcomes(4));
}

TEST_F(FakeFaults, DelayedAndLateWorkKeepsItsOrder) {
  make({.faults = {.delayed = 0.5, .late = 0.5}});
  for (std::uint64_t i = 0; i < 50; ++i) {
    const std::uint64_t word = i + 1;
    const ibv_sge local{reinterpret_cast<std::uint64_t>(&word), sizeof word, 0};
    ASSERT_EQ(ab_->write(i, local, *b_, 0, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  }
  for (std::uint64_t i = 0; i < 50; ++i) {
    const auto wc = a_->poll();
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->wr_id, i);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, b_->memory.data(), sizeof word);
  EXPECT_EQ(word, 50U);
}

TEST_F(FakeFaults, FullQueueIsOneThatWillEmpty) {
  make({.faults = {.full = 1}});
  EXPECT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0) << "nothing to wait for yet";
  EXPECT_EQ(ab_->write(2, a_->sge(0, 8), *b_, 0), ENOMEM);
  EXPECT_TRUE(a_->poll());
  EXPECT_EQ(ab_->write(3, a_->sge(0, 8), *b_, 0), 0);
}

// Whether the last word of a write was ever seen before its first.
bool tail_comes_first(Pair& pair, Side& from, Side& to) {
  constexpr std::uint32_t kBytes = 1024;
  const auto word = [&](std::size_t at) {
    auto& value = *reinterpret_cast<std::uint64_t*>(&to.memory[at]);
    return std::atomic_ref<std::uint64_t>(value).load(std::memory_order_acquire);
  };
  EXPECT_EQ(pair.write(1, from.sge(0, kBytes), to, 0), 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (word(kBytes - 8) == 0 && std::chrono::steady_clock::now() < end) {
  }
  const bool torn = word(0) == 0;
  EXPECT_EQ(from.poll()->status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(to.memory.data(), from.memory.data(), kBytes), 0) << "whole at the end";
  return torn;
}

TEST_F(FakeFaults, ScatteredWriteShowsItsTailFirst) {
  make({.faults = {.scattered = 1, .longest = milliseconds(50)}});
  EXPECT_TRUE(tail_comes_first(*ab_, *a_, *b_));
}

TEST_F(FakeFaults, NicThatWritesInOrderDoesNotScatter) {
  make({.data_in_order = true, .faults = {.scattered = 1, .longest = milliseconds(50)}});
  EXPECT_TRUE(a_->verbs->data_in_order(ab_->qp.get(), IBV_WR_RDMA_WRITE));
  EXPECT_FALSE(tail_comes_first(*ab_, *a_, *b_));
}

TEST_F(FakeFaults, OvertakenWriteLandsAfterTheNotificationThatFollowsIt) {
  make({.faults = {.overtaken = 1, .longest = milliseconds(20)}});
  ASSERT_EQ(ba_->receive(1), 0);
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0);
  ASSERT_EQ(ab_->send(write_request(2, *b_, 0, IBV_WR_RDMA_WRITE_WITH_IMM)), 0);
  EXPECT_EQ(b_->poll()->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  auto& word = *reinterpret_cast<std::uint64_t*>(b_->memory.data());
  const std::atomic_ref<std::uint64_t> seen(word);
  EXPECT_EQ(seen.load(std::memory_order_acquire), 0U);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (seen.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_NE(seen.load(std::memory_order_acquire), 0U);
}

TEST_F(FakeFaults, SpuriousEventComesWithoutACompletion) {
  make({.faults = {.spurious = 1}});
  ASSERT_EQ(a_->verbs->req_notify_cq(a_->queue.get()), 0);
  ibv_cq* cq = nullptr;
  ASSERT_EQ(a_->verbs->get_cq_event(a_->channel.get(), &cq), 0);
  a_->verbs->ack_cq_events(cq, 1);
}

TEST_F(FakeFaults, LostPeerShowsAfterAWhile) {
  make();
  network_.isolate(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(write_many(2), (std::vector{IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR}));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(20));
  EXPECT_EQ(b_->memory[0], std::byte{0});
}

TEST_F(FakeFaults, PeerWhoseQueuePairIsGoneIsLost) {
  make();
  ba_.reset();
  EXPECT_EQ(write_many(1), std::vector{IBV_WC_RETRY_EXC_ERR});
}

TEST_F(FakeFaults, SenderThatWaitsForAReceiveNoticesThatThePeerIsGone) {
  make();
  ASSERT_EQ(ab_->send(write_request(1, *b_, 0, IBV_WR_RDMA_WRITE_WITH_IMM)), 0);
  ba_.reset();
  EXPECT_EQ(a_->poll()->status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(FakeFaults, PeerThatComesBackInTimeIsNotLost) {
  make();
  network_.isolate(1);
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0);
  EXPECT_FALSE(a_->poll(milliseconds(1)));
  network_.isolate(1, false);
  EXPECT_EQ(a_->poll()->status, IBV_WC_SUCCESS);
}

TEST_F(FakeFaults, PortThatGoesDownIsAnEventAndSilence) {
  make();
  network_.set_port(0, false);
  const auto event = a_->event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(event->element.port_num, 1);
  ibv_port_attr port{};
  ASSERT_EQ(a_->verbs->query_port(a_->context.get(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_FALSE(b_->event());
  EXPECT_EQ(write_many(1), std::vector{IBV_WC_RETRY_EXC_ERR});
  network_.set_port(0, true);
  EXPECT_EQ(a_->event()->event_type, IBV_EVENT_PORT_ACTIVE);
}

TEST_F(FakeFaults, DeadDeviceFailsEverything) {
  make();
  ASSERT_EQ(ab_->receive(7), 0);
  network_.fail(0);
  EXPECT_EQ(a_->event()->event_type, IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(a_->poll()->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), EIO);
  EXPECT_EQ(a_->verbs->alloc_pd(a_->context.get()), nullptr);
  EXPECT_EQ(errno, EIO);
}

}  // namespace
}  // namespace weft::p2p::verbs::fake
